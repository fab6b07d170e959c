"""DuckDB, each query over all CSV files at once, by the oracle's text: a limit of this machine.

Measured is to read the files and to keep the answer in a temporary table, in a new database of a process that has run
the same query over another input. The rows are only counted, since the text is that of the truth.
"""

from __future__ import annotations

from pathlib import Path

import duckdb

from bench.nexmark.job import Question, RefusedError, Reply, Stopwatch, serve
from bench.nexmark.truth import create_views
from bench.peers.duckdb_once import connect
from tests.nexmark.oracle import ORACLE

CLOCK = "now()::TIMESTAMP"
"""When a row is processed: all of them in the instant of the query."""


def execute(query: str, path: str) -> tuple[duckdb.DuckDBPyConnection, Stopwatch]:
    """The database with the table `result`, and what that took."""
    connection = connect()
    with Stopwatch() as watch:
        create_views(connection, Path(path), arrived_at=CLOCK)
        connection.execute(f"CREATE TEMP TABLE result AS {ORACLE[query]}")
    return connection, watch


def answer(question: Question) -> Reply:
    if question.query not in ORACLE:
        raise RefusedError("the oracle has no such query")
    execute(question.query, question.warm_up_path)[0].close()
    connection, watch = execute(question.query, question.path)
    with connection:
        ((rows,),) = connection.execute("SELECT count(*) FROM result").fetchall()
    return Reply(watch.started_at, watch.ended_at, watch.seconds, rows=rows)


if __name__ == "__main__":
    serve(answer)
