"""Explaining a script without running it.

A script is explained in a directory of its own that is thrown away. Its streams are opened as plain logs there, so that
explaining connects to nothing and reads no file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from tempfile import TemporaryDirectory

from millstream.engine.surface.connect import connect
from millstream.engine.surface.result import Result
from millstream.sources import SOURCES, TableOptions
from millstream.sql import parse_script
from millstream.sql.statements import CreateStream, CreateTable, CreateView, Explain


def explain_script(text: str, source: str) -> Iterator[Result]:
    """How each view of a script would run, in the order of the script."""
    statements = parse_script(text, source)
    with TemporaryDirectory(prefix="millstream-explain-") as directory, connect(directory) as db:
        for statement in statements:
            match statement:
                case CreateStream() | CreateTable():
                    db.run(_as_log(statement), text, source)
                case CreateView():
                    outcome = db.run(Explain(statement, statement.position), text, source)
                    assert isinstance(outcome, Result)
                    yield outcome


def _as_log(create: CreateStream | CreateTable) -> CreateStream | CreateTable:
    kept: tuple[tuple[str, str], ...] = ()
    if isinstance(create, CreateTable):
        kept = tuple(option for option in create.options if option[0].lower() in TableOptions.model_fields)
    options = dict(option for option in create.options if option not in kept)
    connector = SOURCES.get(options.get("source", "log"))
    if connector is None:
        return create
    connector.options.read(options, create.position)
    return replace(create, options=kept)
