"""Running the statements of a script, one by one, and saying what happened.

Owns how a text is taken apart, so that the command can show what a statement did before the next one runs. Positions of
errors point into the whole text.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from millstream.api import Connection, Done, Outcome, Result, Starts
from millstream.cli.console import note
from millstream.cli.formats import Format
from millstream.cli.show import count, show_result
from millstream.model.errors import MillstreamError
from millstream.sql.parse import parse_script, split_script
from millstream.sql.statements import (
    CreateStream,
    CreateTable,
    CreateView,
    Delete,
    Describe,
    Explain,
    Insert,
    Select,
    Show,
    ShowCreate,
    Statement,
    Subscribe,
)


@dataclass(frozen=True, slots=True)
class Step:
    """One statement of a script."""

    statement: Statement
    text: str
    """The script with all other statements blanked out, so that positions stay."""
    script: str
    source: str

    @property
    def only_reads(self) -> bool:
        """Whether the statement creates nothing, so that it makes no sense without data."""
        return isinstance(self.statement, Select | Show | ShowCreate | Describe | Subscribe) or (
            isinstance(self.statement, Explain) and isinstance(self.statement.target, str)
        )

    @property
    def reads_views(self) -> bool:
        """Whether the answer depends on what has been processed."""
        return isinstance(self.statement, Select | Subscribe | Delete)

    @property
    def brings_work(self) -> bool:
        """Whether there may be something to process afterwards."""
        return isinstance(self.statement, Insert | Delete | CreateView)

    @property
    def needs_spark(self) -> bool:
        """Whether the statement itself waits for Spark."""
        return isinstance(self.statement, CreateView | Explain)

    @property
    def defines_input(self) -> bool:
        """Whether a view is likely to follow."""
        return isinstance(self.statement, CreateStream | CreateTable)


def read_steps(script: str, source: str) -> tuple[Step, ...]:
    """The statements of a script; all of it is checked before anything runs."""
    statements = parse_script(script, source)
    texts = split_script(script, source)
    return tuple(Step(statement, text, script, source) for statement, text in zip(statements, texts, strict=True))


def run_step(db: Connection, step: Step) -> Outcome:
    """Run one statement."""
    return _run(db, step, None)


def apply_step(db: Connection, step: Step, starts: Starts) -> Outcome:
    """Run one statement of a script that may have run before."""
    return _run(db, step, starts)


def _run(db: Connection, step: Step, starts: Starts | None) -> Outcome:
    try:
        if starts is None:
            (outcome,) = db.execute(step.text, source=step.source)
        else:
            (outcome,) = db.apply(step.text, source=step.source, starts=starts)
    except MillstreamError as error:
        if error.position is not None and error.position.text == step.text:
            # What is shown around the place is the line as it was written.
            error.position = replace(error.position, text=step.script)
        raise
    return outcome


def show_outcome(outcome: Outcome, format: Format) -> None:
    """Rows on stdout, and words about everything else on stderr."""
    if isinstance(outcome, Done):
        for notice in outcome.notices:
            note(notice)
        note(words(outcome))
    elif isinstance(outcome, Result):
        show_result(outcome, format)


def words(done: Done) -> str:
    """What a statement did, in a line."""
    kind = done.done.split()[-1].lower()
    match done.effect:
        case "created" | "replaced" | "dropped":
            return f"{done.effect} {kind} {done.name}"
        case "kept":
            return f"{kind} {done.name} is there already"
        case "absent":
            return f"there is no {kind} {done.name}"
        case "inserted":
            return f"inserted {count(done.rows or 0, 'row')} into {done.name}"
        case "deleted":
            return f"deleting {count(done.rows or 0, 'row')} from {done.name}"
        case "altered":
            return f"set {done.name}" if done.done == "SET" else f"rebuilding {kind} {done.name}"


def catch_up(db: Connection) -> None:
    """Process what has arrived, unless it is known that nothing waits: then Spark is not needed."""
    if not db.is_caught_up():
        db.drain()
