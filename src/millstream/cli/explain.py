"""`millstream explain`: how a view runs, before or after it exists.

A script is explained in a directory of its own that is thrown away; its streams are opened as
plain logs there, so that explaining connects to nothing and reads no file.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.text import Text

from millstream.cli.console import OUT
from millstream.cli.session import opened, read_text, wait_for_spark
from millstream.cli.show import show_result
from millstream.engine.surface.database import Database
from millstream.engine.surface.result import Result
from millstream.model.errors import MillstreamError
from millstream.sources import SOURCES, TableOptions
from millstream.sql import parse_script
from millstream.sql.render import quote_name
from millstream.sql.statements import CreateStream, CreateTable, CreateView, Explain


def explain(what: str, data: Path) -> None:
    path = Path(what)
    if path.is_file():
        _explain_script(path)
    elif path.suffix == ".sql":
        raise MillstreamError("FILE_NOT_READABLE", f"there is no file {what}")
    else:
        with opened(data, must_exist=True) as db:
            wait_for_spark(db)
            result = db.sql(f"EXPLAIN {quote_name(what)}")
            assert isinstance(result, Result)
            show_result(result)


def _explain_script(path: Path) -> None:
    text = read_text(path)
    source = str(path)
    statements = parse_script(text, source)
    views = 0
    with TemporaryDirectory(prefix="millstream-explain-") as directory, opened(Path(directory)) as db:
        wait_for_spark(db)
        for statement in statements:
            match statement:
                case CreateStream() | CreateTable():
                    _define_as_log(db, statement, text, source)
                case CreateView():
                    result = db._statements.run(Explain(statement, statement.position), text, source)
                    assert isinstance(result, Result)
                    if views:
                        OUT.print()
                    show_result(result)
                    views += 1
    if not views:
        OUT.print(Text(f"{path} defines no view"))


def _define_as_log(db: Database, create: CreateStream | CreateTable, text: str, source: str) -> None:
    kept: tuple[tuple[str, str], ...] = ()
    if isinstance(create, CreateTable):
        kept = tuple(option for option in create.options if option[0].lower() in TableOptions.model_fields)
    options = dict(option for option in create.options if option not in kept)
    connector = SOURCES.get(options.get("source", "log"))
    if connector is not None:
        connector.options.read(options, create.position)
        create = replace(create, options=kept)
    db._statements.run(create, text, source)
