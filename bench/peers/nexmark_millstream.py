"""Millstream over the CSV files, in epochs of its own choice: the example's text as a durable view.

Measured from CREATE STREAM to the last epoch's commit, in a process that has run the same statements
over another input. The result is read after the database was closed and opened again, and
compared with the truth row by row; no row may be late or dead.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa

import millstream as ms
from bench.nexmark.job import Question, RefusedError, Reply, Stopwatch, serve
from bench.nexmark.truth import Truth
from bench.peers.millstream import open_database
from millstream.engine.define.catalog import read_names
from millstream.nexmark.files import KINDS
from millstream.sql import parse_script
from millstream.sql.statements import CreateView

EXAMPLES = Path(__file__).parents[2] / "examples" / "nexmark"
REFUSALS = ("NOT_SUPPORTED", "BAD_WINDOW", "NO_SOURCE")
"""Codes by which the planner says that it cannot keep a view."""


def streams(path: str, query: str) -> str:
    """The streams of the example that a query reads, over the files of a directory."""
    (view,) = (statement for statement in parse_script(query) if isinstance(statement, CreateView))
    read = set(read_names(view.query))
    text = (EXAMPLES / "streams_files.sql").read_text("utf-8")
    chosen = []
    for statement in text.split(";"):
        name = re.search(r"CREATE STREAM (\w+)", statement)
        if name is not None and name[1] in read:
            chosen.append(statement.replace("'nexmark-data/", f"'{path}/"))
    return ";".join(chosen).replace("'parquet'", "'csv'")


def keep(query: str, path: str, directory: Path) -> Stopwatch:
    """Make the streams and the view, and process everything."""
    text = (EXAMPLES / f"{query}.sql").read_text("utf-8")
    with open_database(directory) as db, Stopwatch() as watch:
        db.sql(streams(path, text), source="streams_files.sql")
        try:
            db.sql(text, source=f"{query}.sql")
        except ms.MillstreamError as error:
            if error.code in REFUSALS:
                raise RefusedError(error.message) from error
            raise
        db.drain()
    return watch


def check(question: Question, directory: Path) -> tuple[int, str | None, dict[str, Any]]:
    """The rows of the view, how they differ from the truth, and the accounting."""
    with open_database(directory) as db:
        view: pa.Table = db.query(f"SELECT * FROM {question.query}").to_arrow()
        streams = {stream["name"] for stream in db.status()["streams"]}
        made = [kind for kind in KINDS if kind in streams]
        letters = [f"{kind}__{name}" for kind in made for name in ("late", "dead")]
        astray = sum(len(db.query(f"SELECT 1 AS one FROM {name}")) for name in letters)
        shown = db.sql("SHOW EPOCHS")
    assert isinstance(shown, ms.Result)
    epochs = shown.to_pandas()
    notes = {"epochs": len(epochs), "rows_in": int(epochs["rows_in"].sum()), "rows_astray": astray}
    with Truth(Path(question.path)) as truth:
        difference = truth.difference(question.query, view)
    if difference is None and astray:
        difference = f"{astray} rows are late or dead"
    return view.num_rows, difference, notes


def answer(question: Question) -> Reply:
    work = Path(question.work)
    keep(question.query, question.warm_up_path, work / "warm")
    watch = keep(question.query, question.path, work / "data")
    rows, difference, notes = check(question, work / "data") if question.verify else (None, None, {})
    return Reply(watch.started_at, watch.ended_at, watch.seconds, rows=rows, difference=difference, notes=notes)


if __name__ == "__main__":
    serve(answer)
