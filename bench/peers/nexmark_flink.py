"""Flink SQL in streaming mode over the CSV files, into the blackhole sink: heap state, or RocksDB with checkpoints.

Runs in the Python of `bench/.venv-flink`. Measured is the job's own run time as Flink reports it, from
its start in a mini cluster to its end, without planning and the start of the cluster, in a JVM that has
run the same query over another input. Rows are counted in an extra run by Flink itself.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from bench.job import CORES
from bench.nexmark.flink_sql import QUERIES, tables
from bench.nexmark.job import Question, RefusedError, Reply, serve

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

# An extra run that is not measured may batch its updates, since only the last count is looked at.
COUNTING = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "2 s",
    "table.exec.mini-batch.size": "100000",
}


def environment(settings: str, work: Path, path: str, more: dict[str, str] | None = None):  # type: ignore[no-untyped-def]  # PyFlink is not in the environment of the checks
    """A table environment with the three tables."""
    from pyflink.common import Configuration
    from pyflink.table import EnvironmentSettings, TableEnvironment

    configuration = Configuration()
    directories = {"io.tmp.dirs": str(work / "tmp"), "execution.checkpointing.dir": f"file://{work}/checkpoints"}
    for key, value in {**EVERYWHERE, **SETTINGS[settings], **directories, **(more or {})}.items():
        configuration.set_string(key, value)
    (work / "tmp").mkdir(parents=True, exist_ok=True)
    chosen = EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(configuration).build()
    made = TableEnvironment.create(chosen)
    for statement in tables(path):
        made.execute_sql(statement)
    return made


def execute(settings: str, work: Path, query: str, path: str) -> float:
    """Run a query to the end of its input; the seconds of the job."""
    from pyflink.table import TableDescriptor

    sink = TableDescriptor.for_connector("blackhole").build()
    result = environment(settings, work, path).sql_query(QUERIES[query]).execute_insert(sink)
    ran = result.get_job_client().get_job_execution_result().result()
    return ran.get_net_runtime() / 1000


def count(settings: str, work: Path, query: str, path: str) -> int:
    """How many rows the result has at the end of the input."""
    counted = environment(settings, work, path, COUNTING).sql_query(f"SELECT count(*) FROM ({QUERIES[query]})")
    rows = 0
    with counted.execute().collect() as changes:
        for change in changes:
            rows = change[0]
    return rows


def answer(settings: str, question: Question) -> Reply:
    if question.query not in QUERIES:
        raise RefusedError("not written for Flink")
    work = Path(question.work)
    execute(settings, work / "warm", question.query, question.warm_up_path)
    started_at = time.time()
    seconds = execute(settings, work / "data", question.query, question.path)
    ended_at = time.time()
    # Windows of processing time that are open at the end of the input are never completed, so they cannot be counted.
    verify = question.verify and question.query != "q12"
    rows = count(settings, work / "counted", question.query, question.path) if verify else None
    return Reply(started_at, ended_at, seconds, rows=rows)


if __name__ == "__main__":
    os.environ["JVM_ARGS"] = JVM
    serve(lambda question: answer(sys.argv[2], question))
