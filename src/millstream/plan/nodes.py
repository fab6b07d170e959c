"""The logical plan: what a pipeline is made of, as frozen data.

A plan holds compiled SQL text for both sides and runs none of it. Names that begin with two
underscores belong to the plan: `__et` event time in microseconds, `__p` partition, `__o` offset,
`__dead` the reason a row could not be decoded, `__bad` whether an expression of the view fails on
it, `__k0`… group keys, `__pane` the start of its pane, `__a0`… accumulators, `__rows` a row count,
`__pt` the processing time at which it landed, `__wt` the instant that decides about its window.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import pyarrow as pa

from millstream.duck import quote
from millstream.model.schema import Schema
from millstream.plan.aggregates import Accumulator
from millstream.plan.tables import NO_RULES, TableRules
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
VERSIONS = ".versions"
"""What the relation of a table's versions is called, after the table."""

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
    rules: TableRules = NO_RULES
    """Of a table: how its changes are applied."""

    @property
    def stored(self) -> Schema:
        """The columns that a table keeps and shows."""
        return self.rules.stored(self.schema)

    @property
    def has_event_versions(self) -> bool:
        """Whether it is a table whose versions are in event time."""
        return self.rules.versioned and self.watermark is not None

    @property
    def event_time(self) -> str | None:
        return self.watermark.column if self.watermark else None

    @property
    def percentile(self) -> float | None:
        """Set if the slack follows the lateness of the rows."""
        return self.watermark.percentile if self.watermark else None

    @property
    def slack(self) -> int:
        """How far the watermark runs behind, where that is fixed."""
        return self.watermark.slack if self.watermark else 0

    @property
    def is_ordered(self) -> bool:
        """Whether it matters which of two rows of a partition came first."""
        return bool(self.primary_key) or self.percentile is not None


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

    def merged(self, kept: str, new: str) -> str:
        """A value that is kept and a new one as one."""
        return self.accumulator.merge.replace("{a}", kept).replace("{b}", new)


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
    hidden: bool = False
    """Whether the rows are kept for another part of the same view, and nobody else reads them."""
    horizon: Horizon | None = None
    top: Top | None = None

    @property
    def only_grows(self) -> bool:
        """Whether rows are only ever added, as far as readers can tell."""
        return self.retain is None


@dataclass(frozen=True, slots=True)
class Horizon:
    """How long a row of a joined stream matters. The clock is the watermark of all `streams` together.

    A row is late once the watermark is `late_after` past it: no partner can come any more. It is
    let go `keep` past it: no partner that is not late can reach it.
    """

    streams: tuple[str, ...]
    late_after: int | None
    keep: int


@dataclass(frozen=True, slots=True)
class Top:
    """Only rows of each partition up to a rank can ever matter. Columns, order and rank are the store's SQL."""

    partition: tuple[str, ...]
    order: str
    rank: str
    count: int

    @property
    def numbers_rows(self) -> bool:
        """Whether no two rows of a partition have the same rank."""
        return self.rank.upper().startswith("ROW_NUMBER(")

    def ranked(self, then: str = "") -> str:
        """The rank of a row, with more to order rows by that the order leaves equal."""
        by = f"PARTITION BY {', '.join(map(quote, self.partition))} " if self.partition else ""
        return f"{self.rank} OVER ({by}{self.order}{then})"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopView(AppendView):
    """Of the rows of a stream, those of each partition up to a rank.

    Spark delivers rows, as for any view of rows; the store keeps those that `top` lets it. Outputs and condition
    are the store's SQL over their columns and `__rank`.
    """

    top: Top
    outputs: tuple[Output, ...]
    condition: str | None
    """Which of the kept rows are shown, if not all."""
    shows_rank: bool
    """Whether outputs or condition look at the rank."""

    @property
    def only_grows(self) -> bool:
        return False


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
    hidden: bool = False

    @property
    def only_grows(self) -> bool:
        return False

    @property
    def is_global(self) -> bool:
        """One group that exists from the start: no keys and no window."""
        return not self.keys and self.window is None

    @property
    def is_mergeable(self) -> bool:
        """Whether a row belongs to the same groups whatever else there is: not so with windows that rows make."""
        return self.window is None or isinstance(self.window, Window)

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
"""What Spark computes the delta of: rows or groups of one stream."""


@dataclass(frozen=True, slots=True)
class Input:
    """A relation that a query in the store reads, in one place of its text."""

    relation: str
    columns: tuple[str, ...]
    """The columns that the query reads; the relation may have others."""
    append_only: bool
    """Whether rows are only ever added, each marked with its epoch."""
    key: tuple[str, ...] = ()
    """The columns that decide, together, which rows of the view an input row can change."""
    optional: OptionalSide | None = None
    """Set for the side of a LEFT JOIN that may be missing."""


@dataclass(frozen=True, slots=True)
class OptionalSide:
    """What links the optional side of a LEFT JOIN: `columns` of its own with `to_columns` of input `to`."""

    columns: tuple[str, ...]
    to: int
    to_columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Missing:
    """An input of which a row has no partner: none meets `on`, the store's SQL."""

    input: int
    on: str


@dataclass(frozen=True, slots=True)
class OuterRows:
    """The rows of a time-bounded outer join in which the same inputs are present and the others missing.

    They appear once the watermark has settled them: when no partner can come any more. Outputs and
    conditions are the store's SQL, in which all columns of missing inputs are NULL.
    """

    present: tuple[int, ...]
    missing: tuple[Missing, ...]
    outputs: tuple[str, ...]
    conditions: tuple[str, ...]
    settled: tuple[tuple[tuple[int, int], ...], ...]
    """For each input that could match: (input that is present, microseconds after it), the earliest of which counts."""


Method = Literal["delta", "union", "keyed", "whole"]


@dataclass(frozen=True, slots=True)
class QueryView:
    """A query over relations of the store, maintained in the epoch's transaction.

    `sql` is the store's SQL, in which `"__in0"`, `"__in1"`… stand for the inputs. How it is
    maintained: `delta`, the changes of each input joined with the others; `union`, the changes of
    each input by itself; `keyed`, the query again for the keys that changed; `whole`, the query again.
    """

    name: str
    sql: str
    columns: tuple[str, ...]
    inputs: tuple[Input, ...]
    method: Method
    key: tuple[str, ...]
    """The store's SQL of the key, over the inputs, as `keyed` selects it besides the columns."""
    identity: tuple[str, ...]
    """The columns that tell the rows apart, where some are known to."""
    accumulation: Accumulation
    retain: int | None
    changelog_retain: int | None
    hidden: bool = False
    streams: tuple[str, ...] = ()
    """The streams whose watermarks together are the clock of the query."""
    time: str | None = None
    """The store's SQL of a row's instant, in microseconds, where it has one."""
    aliases: tuple[str, ...] = ()
    """What the inputs are called in `sql` and `outer`."""
    outer: tuple[OuterRows, ...] = ()
    """The rows of a time-bounded outer join that `sql`, which has all inputs, does not give."""
    why: str = ""
    """Why this method and not a cheaper one."""
    probes: tuple[str, ...] = ()
    """The store's SQL, over the inputs, of what must not fail when the view is created: see `duck.probes`."""

    @property
    def only_grows(self) -> bool:
        linear = self.method in ("delta", "union") and not self.outer and self.retain is None
        return linear and all(i.append_only and not i.optional for i in self.inputs)


Part = AppendView | AggregateView | QueryView


@dataclass(frozen=True, slots=True)
class ViewPlan:
    """A view and the hidden parts it is made of, in the order they are maintained; the view is the last."""

    parts: tuple[Part, ...]
    types: Mapping[str, Mapping[str, pa.DataType]] = field(default_factory=dict, compare=False)
    """What was asked to plan it: by stream, the types of expressions in Spark SQL. With these it can be planned again
    without Spark."""

    @property
    def view(self) -> Part:
        return self.parts[-1]

    def sharing(self, built: Sequence[str]) -> ViewPlan:
        """What is left to build where some parts exist already: `built` has for each part the name it has or gets."""
        names = dict(zip((part.name for part in self.parts), built, strict=True))
        own = tuple(_reading(part, names) for part in self.parts if names[part.name] == part.name)
        return replace(self, parts=own)

    @property
    def on_spark(self) -> tuple[View, ...]:
        return tuple(part for part in self.parts if not isinstance(part, QueryView))

    @property
    def in_store(self) -> tuple[QueryView, ...]:
        return tuple(part for part in self.parts if isinstance(part, QueryView))

    @property
    def streams(self) -> tuple[str, ...]:
        """The streams that the view reads itself."""
        return tuple(dict.fromkeys(part.stream for part in self.on_spark))

    def reads(self) -> set[str]:
        """The relations of others that the view reads: streams, tables and views."""
        own = {part.name for part in self.parts}
        inputs = {i.relation.removesuffix(VERSIONS) for part in self.in_store for i in part.inputs}
        return (inputs - own) | set(self.streams)


def _reading(part: Part, names: Mapping[str, str]) -> Part:
    """A part that reads relations under other names."""
    if not isinstance(part, QueryView):
        return part
    inputs = tuple(replace(i, relation=names.get(i.relation, i.relation)) for i in part.inputs)
    return replace(part, inputs=inputs)


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
