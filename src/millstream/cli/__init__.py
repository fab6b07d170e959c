"""The command line. `main` is the entry point; every command has a module of its own."""
