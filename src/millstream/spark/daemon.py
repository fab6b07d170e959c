"""What forks Python workers: PySpark's own daemon, with the kernel loaded once for all of them.

Spark starts it as a program (`spark.python.daemon.module`). A worker then begins to work within milliseconds of
its start, where loading Arrow, DuckDB and the kernel takes a second or more.
"""

from __future__ import annotations

import millstream.kernel.evaluation  # noqa: F401

if __name__ == "__main__":
    from pyspark.daemon import manager

    manager()
