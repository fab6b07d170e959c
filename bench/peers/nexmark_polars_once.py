"""Polars, each query over all CSV files at once, by its SQL and its streaming engine: a limit of this machine.

Runs in the Python of `bench/.venv-polars`. Measured from the listing of the files to the answer as a data frame, in a
process that has run the same query over another input. Only Polars is here: the answer is told by its count and sums.
"""

from __future__ import annotations

import os
from typing import Any

from bench.job import CORES
from bench.nexmark.job import WRAP, Question, RefusedError, Reply, Stopwatch, serve
from bench.nexmark.polars_sql import COLUMNS, QUERIES


def tables(path: str) -> dict[str, Any]:
    """The files of each kind, and event time in microseconds."""
    import polars as pl  # type: ignore[import-not-found]

    types = {"Int64": pl.Int64, "String": pl.String, "Datetime": pl.Datetime("us")}
    found = {}
    for kind, columns in COLUMNS.items():
        schema = {name: types[type_] for name, type_ in columns.items()}
        files = pl.scan_csv(f"{path}/{kind}/*.csv", has_header=False, quote_char=None, schema=schema)
        found[kind] = files.with_columns(us=pl.col("date_time").dt.epoch("us"))
    return found


def execute(query: str, path: str) -> tuple[Any, Stopwatch]:
    """The answer as a data frame, and what that took."""
    import polars as pl

    with Stopwatch() as watch:
        found = pl.SQLContext(tables(path)).execute(QUERIES[query]).collect(engine="streaming")
    return found, watch


def sums(rows: Any) -> dict[str, int]:
    """Of every column that is no fraction a sum, as `Truth.sums` has it."""
    import polars as pl

    found = {}
    for name, type_ in rows.schema.items():
        column = rows[name]
        if type_ == pl.String:
            found[name] = int(column.str.len_bytes().cast(pl.Int64).sum())
        elif type_ == pl.Datetime:
            found[name] = int((column.dt.epoch("us") % WRAP).sum())
        elif type_.is_integer():
            found[name] = int(column.cast(pl.Int64).sum())
    return found


def answer(question: Question) -> Reply:
    if question.query not in QUERIES:
        raise RefusedError("not written for Polars")
    execute(question.query, question.warm_up_path)
    found, watch = execute(question.query, question.path)
    told = sums(found) if question.verify else None
    return Reply(watch.started_at, watch.ended_at, watch.seconds, rows=found.height, sums=told)


if __name__ == "__main__":
    os.environ["POLARS_MAX_THREADS"] = str(CORES)
    serve(answer)
