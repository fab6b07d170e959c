"""What is measured: one module per workload, each a function `measure(plan) -> list[Section]`."""
