"""What is measured: one module per workload, each a function `measure(bench) -> list[Row | Check]`."""
