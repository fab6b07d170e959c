"""The logical plan: what a pipeline is made of, as frozen data.

A plan holds compiled SQL text for both sides and runs none of it. Names that begin with two
underscores belong to the plan: `__et` event time in microseconds, `__p` partition, `__o` offset,
`__dead` the reason a row could not be decoded, `__bad` whether an expression of the view fails on
it, `__k0`… group keys, `__pane` the start of its pane, `__a0`… accumulators, `__rows` a row count,
`__pt` the processing time at which it landed, `__wt` the instant that decides about its window.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from millstream.model.schema import Schema
from millstream.plan.aggregates import Accumulator
from millstream.plan.windows import AnyWindow, Window
from millstream.sql.statements import (
    Accumulation,
    ClockCorrection,
    EveryEpoch,
    EveryInterval,
    Rate,
    Watermark,
)

RESERVED_PREFIX = "__"

# What became of a row, as the delta query codes it.
USED, FILTERED, DEAD, FAILED = 0, 1, 3, 4


@dataclass(frozen=True, slots=True)
class Stream:
    """An append-only relation. A table's changes are a stream too, with `primary_key` set."""

    name: str
    schema: Schema
    watermark: Watermark | None
    correction: ClockCorrection | None
    primary_key: tuple[str, ...] = ()
    letters_retain: int | None = None
    """How long late and dead rows are kept, in processing time."""

    @property
    def event_time(self) -> str | None:
        return self.watermark.column if self.watermark else None

    @property
    def slack(self) -> int:
        return self.watermark.slack if self.watermark else 0


@dataclass(frozen=True, slots=True)
class Key:
    """A GROUP BY expression: its Spark SQL and, when it is selected, the output it appears as."""

    sql: str
    output: str | None


@dataclass(frozen=True, slots=True)
class Output:
    """A column of the view. `sql` is the store's SQL over keys, `__ws` and accumulators."""

    name: str
    sql: str


@dataclass(frozen=True, slots=True)
class Kept:
    """An accumulator in its place: `column` in the state, `delta_columns` as Spark delivers it."""

    column: str
    accumulator: Accumulator
    delta_columns: tuple[str, ...]
    filter: str | None

    def load(self) -> str:
        return fill(self.accumulator.load, self.delta_columns)


@dataclass(frozen=True, slots=True)
class Trigger:
    """When the panes of a view fire. See `sql.statements.Emit` for the words."""

    repeatedly: Rate | None
    early: Rate | None
    on_watermark: bool
    late: Rate | None
    accumulation: Accumulation

    @property
    def is_live(self) -> bool:
        """Every change is published in its epoch, so what is kept is what is shown."""
        return isinstance(self.repeatedly, EveryEpoch)

    @property
    def intervals(self) -> tuple[EveryInterval, ...]:
        rates = (self.repeatedly, self.early, self.late)
        return tuple(rate for rate in rates if isinstance(rate, EveryInterval))


@dataclass(frozen=True, slots=True)
class AppendView:
    """Select, filter, project: each used row becomes one row of the view."""

    name: str
    stream: str
    window: Window | None
    windows_close: bool
    filter: str | None
    columns: tuple[tuple[str, str], ...]
    """(output name, Spark SQL)"""
    lateness: int
    retain: int | None
    changelog_retain: int | None
    checks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AggregateView:
    """Rows grouped by keys and windows, aggregated."""

    name: str
    stream: str
    window: AnyWindow | None
    windows_close: bool
    """Whether the watermark of the stream (they are on its event time) or the clock closes the windows."""
    filter: str | None
    keys: tuple[Key, ...]
    kept: tuple[Kept, ...]
    outputs: tuple[Output, ...]
    having: str | None
    trigger: Trigger
    lateness: int
    retain: int | None
    changelog_retain: int | None
    checks: tuple[str, ...] = ()
    """Row-level expressions that may fail, the filter first, if there is one."""
    always_changes: bool = False
    """Whether every used row changes the published value (a `count(*)` is among the outputs)."""

    @property
    def is_global(self) -> bool:
        """One group that exists from the start: no keys and no window."""
        return not self.keys and self.window is None

    @property
    def on_clock(self) -> bool:
        """Whether the windows are on processing time, which is then the view's watermark."""
        return self.window is not None and self.window.on_clock

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The outputs that tell the rows of the view apart: keys and bounds of windows."""
        keys = {key.output for key in self.keys}
        return tuple(
            out.name
            for out in self.outputs
            if out.name in keys or ("make_timestamp(__w" in out.sql and not re.search(r"\b__a\d", out.sql))
        )


View = AppendView | AggregateView


def fill(template: str, names: tuple[str, ...]) -> str:
    """Put names for `{0}`, `{1}`… without touching other braces.

    >>> fill("{0} + {1}", ("a", "b"))
    'a + b'
    """
    return re.sub(r"\{(\d+)\}", lambda m: names[int(m.group(1))], template)


def prefixed(sql: str, prefix: str) -> str:
    """The same SQL over another set of the accumulator columns.

    >>> prefixed("coalesce(__a0, 0) + __k1", "old")
    'coalesce(old__a0, 0) + __k1'
    """
    return re.sub(r"(?<!\w)__(a\d+)\b", rf"{prefix}__\1", sql)
