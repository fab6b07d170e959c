"""`millstream sql` without a prompt: statements from -c or stdin, in order, up to the first error.

What always holds: a SELECT sees every row that was inserted before it, and when the command ends
without an error everything inserted has been processed. A script that only reads creates no directory.
"""

from __future__ import annotations

from pathlib import Path

from millstream.cli.formats import Format
from millstream.cli.script import catch_up, read_steps, run_step, show_outcome
from millstream.cli.session import opened
from millstream.cli.topics import follow, known_view
from millstream.sql.statements import Subscribe


def run_statements(data: Path, text: str, source: str, format: Format) -> None:
    steps = read_steps(text, source)
    only_reads = bool(steps) and all(step.only_reads for step in steps)
    with opened(data, must_exist=only_reads, eager=False) as db:
        for step in steps:
            if step.reads_views:
                catch_up(db)
            if isinstance(step.statement, Subscribe):
                view = known_view(db, step.statement)
                db.start()
                follow(db, view, step.statement.from_epoch, format)
                db.stop()
                continue
            show_outcome(run_step(db, step), format)
        if any(step.brings_work for step in steps):
            catch_up(db)
