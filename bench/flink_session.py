"""The settings of Flink, the same for every workload: streaming mode, heap state, or RocksDB with checkpoints.

Imports nothing but Flink and the standard library, because it is read by the Python of `bench/.venv-flink`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.job import CORES

# Millstream has 1 GB of heap for Spark and 1 GB for the store; Flink has one heap for both, and beside it
# the managed memory below for RocksDB.
JVM = "-Xms1g -Xmx2g -XX:+UseParallelGC"

EVERYWHERE = {
    "execution.runtime-mode": "STREAMING",
    "parallelism.default": str(CORES),
    "table.local-time-zone": "UTC",
    "table.exec.mini-batch.enabled": "false",
    "pipeline.object-reuse": "true",
    "taskmanager.memory.managed.size": "512m",
    "taskmanager.memory.network.max": "256m",
    "restart-strategy.type": "disable",
}

SETTINGS = {
    "heap": {"state.backend.type": "hashmap"},
    "rocksdb": {
        "state.backend.type": "rocksdb",
        "execution.checkpointing.interval": "5 s",
        "execution.checkpointing.incremental": "true",
    },
}

# An extra run that is not measured may batch its updates, since only the last of them is looked at.
COUNTING = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "2 s",
    "table.exec.mini-batch.size": "100000",
}


def environment(settings: str, work: Path, tables: Sequence[str], more: dict[str, str] | None = None):  # type: ignore[no-untyped-def]  # PyFlink is not in the environment of the checks
    """A table environment with some tables, by the statements that make them."""
    from pyflink.common import Configuration
    from pyflink.table import EnvironmentSettings, TableEnvironment

    configuration = Configuration()
    directories = {"io.tmp.dirs": str(work / "tmp"), "execution.checkpointing.dir": f"file://{work}/checkpoints"}
    for key, value in {**EVERYWHERE, **SETTINGS[settings], **directories, **(more or {})}.items():
        configuration.set_string(key, value)
    (work / "tmp").mkdir(parents=True, exist_ok=True)
    chosen = EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(configuration).build()
    made = TableEnvironment.create(chosen)
    for statement in tables:
        made.execute_sql(statement)
    return made


def execute(settings: str, work: Path, tables: Sequence[str], query: str) -> float:
    """Run a query to the end of its input, into the blackhole sink; the seconds of the job."""
    from pyflink.table import TableDescriptor

    sink = TableDescriptor.for_connector("blackhole").build()
    result = environment(settings, work, tables).sql_query(query).execute_insert(sink)
    ran = result.get_job_client().get_job_execution_result().result()
    return float(ran.get_net_runtime()) / 1000


def last_row(settings: str, work: Path, tables: Sequence[str], query: str) -> tuple[int, ...]:
    """What a query of one row of numbers has at the end of its input."""
    row: tuple[int, ...] = ()
    with environment(settings, work, tables, COUNTING).sql_query(query).execute().collect() as changes:
        for change in changes:
            row = tuple(change)
    return row
