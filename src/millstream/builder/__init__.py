"""The Python builder: relations, windows, triggers and expressions as objects that write StreamSQL."""
