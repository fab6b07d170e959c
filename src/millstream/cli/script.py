"""Carrying out the statements of a script, one by one, and saying what happened.

Owns the rule that makes a script repeatable: a CREATE whose object exists with the same
definition is skipped, with another definition it is refused. Definitions are compared by their
canonical text.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace

from millstream.cli.progress import progress_of
from millstream.cli.show import count
from millstream.engine.define.catalog import Entry, StreamEntry, ViewEntry
from millstream.engine.define.definitions import as_said
from millstream.engine.surface.database import Database
from millstream.engine.surface.result import Result
from millstream.engine.surface.subscription import Subscription
from millstream.model.errors import MillstreamError
from millstream.sql import render
from millstream.sql.statements import (
    CreateStream,
    CreateTable,
    CreateView,
    Delete,
    Drop,
    Insert,
    Rebuild,
    Select,
    SetOption,
    Statement,
    Subscribe,
)

Create = CreateStream | CreateTable | CreateView


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a statement gave: a line that says what happened, or rows."""

    message: str | None = None
    result: Result | Subscription | None = None


def carry_out(db: Database, statement: Statement, text: str, source: str) -> Outcome:
    """Run one statement of a text; positions of errors point into the text."""
    match statement:
        case CreateStream() | CreateTable() | CreateView():
            existed = db.catalog.find(statement.name) is not None
            db._statements.run(statement, text, source)
            if existed and statement.if_not_exists:
                return Outcome(f"{kind_of(statement)} {statement.name} exists already")
            return Outcome(f"{'replaced' if existed else 'created'} {kind_of(statement)} {statement.name}")
        case SetOption():
            db._statements.run(statement, text, source)
            return Outcome(f"{statement.name} is {statement.value}")
        case Rebuild():
            db._statements.run(statement, text, source)
            return Outcome(f"rebuilding view {statement.name}")
        case Drop():
            existed = db.catalog.find(statement.name) is not None
            db._statements.run(statement, text, source)
            gone = f"dropped {statement.kind} {statement.name}"
            return Outcome(gone if existed else f"there is no {statement.kind} {statement.name}")
        case Delete():
            before = _end(db, statement.target)
            db._statements.run(statement, text, source)
            deleted = _end(db, statement.target) - before
            return Outcome(f"deleting {count(deleted, 'row')} from {statement.target}")
        case Insert():
            before = _end(db, statement.target)
            db._statements.run(statement, text, source)
            added = _end(db, statement.target) - before
            return Outcome(f"inserted {count(added, 'row')} into {statement.target}")
        case _:
            result = db._statements.run(statement, text, source)
            return Outcome(result=result if isinstance(result, Result | Subscription) else None)


def is_unchanged(db: Database, create: Create) -> bool:
    """Whether a CREATE asks for what is there already; another definition is refused."""
    entry = db.catalog.find(create.name)
    if entry is None:
        return False
    if _text(create) == _existing_text(entry, create):
        return True
    if not create.or_replace and not create.if_not_exists:
        raise _differs(entry, create)
    return False


def reads_views(statement: Statement) -> bool:
    """Whether the answer depends on what has been processed."""
    return isinstance(statement, Select | Subscribe | Delete)


def catch_up(db: Database) -> None:
    """Process what has arrived, unless it is known that nothing waits: then Spark is not needed."""
    if db.catalog.streams() and not (progress_of(db).is_caught_up and db.history.is_done()):
        db.drain()


def _end(db: Database, name: str) -> int:
    entry = db.catalog.find(name)
    if not isinstance(entry, StreamEntry) or entry.topic is None:
        return 0
    return sum(db.log.topic(entry.topic.name).end_offsets().values())


def _text(create: Create) -> str:
    return render(replace(create, or_replace=False, if_not_exists=False))


def _existing_text(entry: Entry, create: Create) -> str:
    if isinstance(entry, StreamEntry) and not isinstance(create, CreateView):
        return _text(as_said(entry, create))
    if isinstance(entry, ViewEntry) and entry.successor is not None:
        return _text(entry.successor.statement)
    return _text(entry.statement)


def _differs(entry: Entry, create: Create) -> MillstreamError:
    old, new = _text(entry.statement).splitlines(), _text(create).splitlines()
    changed = [
        line for line in difflib.unified_diff(old, new, n=0, lineterm="") if not line.startswith(("---", "+++", "@@"))
    ]
    return MillstreamError(
        "DEFINITION_DIFFERS",
        f"{entry.name} exists with another definition",
        detail="what it is (-) and what the script says (+)\n" + "\n".join(f"  {line}" for line in changed),
        hint="drop it first, write CREATE OR REPLACE, or use another data directory",
        position=create.position,
    )


def kind_of(create: Create) -> str:
    return {CreateStream: "stream", CreateTable: "table", CreateView: "view"}[type(create)]
