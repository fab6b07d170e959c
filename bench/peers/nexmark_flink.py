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

from bench.flink_session import JVM, execute, last_row
from bench.nexmark.flink_sql import QUERIES, tables
from bench.nexmark.job import Question, RefusedError, Reply, serve


def count(settings: str, work: Path, path: str, query: str) -> int:
    """How many rows the result has at the end of the input."""
    counted = last_row(settings, work, tables(path), f"SELECT count(*) FROM ({query})")
    return counted[0] if counted else 0


def answer(settings: str, question: Question) -> Reply:
    if question.query not in QUERIES:
        raise RefusedError("not written for Flink")
    work = Path(question.work)
    query = QUERIES[question.query]
    execute(settings, work / "warm", tables(question.warm_up_path), query)
    started_at = time.time()
    seconds = execute(settings, work / "data", tables(question.path), query)
    ended_at = time.time()
    # Windows of processing time that are open at the end of the input are never completed, so they cannot be counted.
    verify = question.verify and question.query != "q12"
    rows = count(settings, work / "counted", question.path, query) if verify else None
    return Reply(started_at, ended_at, seconds, rows=rows)


if __name__ == "__main__":
    os.environ["JVM_ARGS"] = JVM
    serve(lambda question: answer(sys.argv[2], question))
