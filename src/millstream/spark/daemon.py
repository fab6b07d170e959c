"""What forks Python workers: PySpark's own daemon, with the kernel loaded once for all of them.

Spark starts it as a program (`spark.python.daemon.module`). A worker then begins to work within milliseconds of
its start, where loading Arrow, DuckDB and the kernel takes a second or more. PySpark has a worker collect
garbage after every task: what is loaded here is set aside first, or it would be looked through each time.
"""

from __future__ import annotations

import gc

# The functions that tasks run, with all that these import.
import millstream.spark.native
import millstream.spark.relation  # noqa: F401

if __name__ == "__main__":
    # Otherwise imported in each worker, after it was forked. PySpark needs pandas for any task that reads Arrow.
    import pandas  # noqa: F401
    import pyspark.worker  # noqa: F401
    from pyspark.daemon import manager

    gc.collect()
    gc.freeze()
    manager()
