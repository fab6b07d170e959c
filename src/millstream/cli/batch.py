"""`millstream sql` without a prompt: statements from -c or stdin, in order, up to the first error.

What always holds: a SELECT sees every row that was inserted before it, and when the command ends
without an error everything inserted has been processed.
"""

from __future__ import annotations

from pathlib import Path

from millstream.cli.console import note
from millstream.cli.formats import Format
from millstream.cli.script import carry_out, catch_up, reads_views
from millstream.cli.session import opened
from millstream.cli.show import show_result
from millstream.cli.topics import follow
from millstream.engine.surface.result import Result
from millstream.sql import parse_script
from millstream.sql.statements import CreateView, Delete, Insert, Subscribe


def run_statements(data: Path, text: str, source: str, format: Format) -> None:
    statements = parse_script(text, source)
    with opened(data, eager=False) as db:
        for statement in statements:
            if reads_views(statement):
                catch_up(db)
            if isinstance(statement, Subscribe):
                db.catalog.view(statement.name, statement.position)
                db.start()
                follow(db, statement.name, statement.from_epoch, format)
                db.stop()
                continue
            outcome = carry_out(db, statement, text, source)
            if outcome.message:
                note(outcome.message)
            if isinstance(outcome.result, Result):
                show_result(outcome.result, format)
        if any(isinstance(statement, Insert | Delete | CreateView) for statement in statements):
            catch_up(db)
