"""Columnar kernels: rows read, decoded and aggregated by Arrow and DuckDB with Spark's meaning.

They run inside Spark's executors, over the share of a task. What always holds: a kernel gives what
Spark SQL would give, or refuses, and then Spark does it. Must not know Spark.
"""
