"""What a StreamSQL statement says, as frozen data.

Owns the shape of statements; knows nothing of how they run. Queries stay sqlglot expressions in
the Spark dialect (the planner reads them); everything else is plain data. Durations are
microseconds. A statement prints back to canonical text with `millstream.sql.render.render`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import pyarrow as pa
from sqlglot import exp

from millstream.model.errors import Position
from millstream.model.schema import Schema

Accumulation = Literal["accumulating", "discarding", "retracting"]
RelationKind = Literal["stream", "table", "view", "sink", "function"]
Options = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class EveryRows:
    """`EVERY n ROWS`."""

    count: int


@dataclass(frozen=True, slots=True)
class EveryInterval:
    """`EVERY <interval>` of processing time."""

    micros: int


@dataclass(frozen=True, slots=True)
class EveryEpoch:
    """`ON EPOCH`."""


Rate = EveryRows | EveryInterval | EveryEpoch


@dataclass(frozen=True, slots=True)
class Emit:
    """When a view publishes, and how a later pane relates to an earlier one.

    Either `repeatedly` is set (`EMIT ON EPOCH`, `EMIT EVERY …`), or `on_watermark` is true and
    `early` and `late` may be. `lateness` is None where the statement does not say.
    """

    repeatedly: Rate | None = None
    on_watermark: bool = False
    early: Rate | None = None
    late: Rate | None = None
    accumulation: Accumulation = "accumulating"
    lateness: int | None = None


DEFAULT_EMIT = Emit(repeatedly=EveryEpoch())


@dataclass(frozen=True, slots=True)
class Watermark:
    """`WATERMARK FOR column AS column - slack`, or `AT PERCENTILE p`."""

    column: str
    slack: int = 0
    percentile: float | None = None


@dataclass(frozen=True, slots=True)
class ClockCorrection:
    """`EVENT TIME column CORRECTED BY (sent_at, received_at)`."""

    column: str
    sent_at: str
    received_at: str


@dataclass(frozen=True, slots=True)
class CreateStream:
    name: str
    schema: Schema
    watermark: Watermark | None = None
    correction: ClockCorrection | None = None
    options: Options = ()
    or_replace: bool = False
    if_not_exists: bool = False
    position: Position | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class CreateTable:
    name: str
    schema: Schema
    primary_key: tuple[str, ...]
    options: Options = ()
    or_replace: bool = False
    if_not_exists: bool = False
    position: Position | None = field(default=None, compare=False)
    watermark: Watermark | None = None


@dataclass(frozen=True, slots=True)
class CreateView:
    name: str
    query: exp.Query
    emit: Emit = DEFAULT_EMIT
    options: Options = ()
    or_replace: bool = False
    if_not_exists: bool = False
    position: Position | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class CreateFunction:
    """`CREATE FUNCTION name(argument TYPE, …) RETURNS TYPE AS 'module:name'`; no AS for one that a program brings."""

    name: str
    arguments: Schema
    returns: pa.DataType
    source: str | None = None
    or_replace: bool = False
    if_not_exists: bool = False
    position: Position | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class CreateSink:
    """`CREATE SINK name FROM view WITH (connector = '…', …)`; `INTO TOPIC t` is short for the connector `topic`."""

    name: str
    view: str
    options: Options = ()
    if_not_exists: bool = False
    position: Position | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Drop:
    kind: RelationKind
    name: str
    if_exists: bool = False
    position: Position | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Rebuild:
    """`ALTER MATERIALIZED VIEW name REBUILD`."""

    name: str
    position: Position | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class SetOption:
    """`SET name = 'value'`: how this database runs, until it is closed."""

    name: str
    value: str
    position: Position | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Show:
    """`SHOW STREAMS | TABLES | VIEWS | SINKS | FUNCTIONS | EPOCHS`."""

    what: Literal["streams", "tables", "views", "sinks", "functions", "epochs"]


@dataclass(frozen=True, slots=True)
class ShowCreate:
    name: str
    position: Position | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Describe:
    name: str
    position: Position | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Explain:
    """`EXPLAIN <name>`, or `EXPLAIN` before a query or a CREATE MATERIALIZED VIEW."""

    target: str | CreateView | Select
    position: Position | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Insert:
    """`INSERT INTO target [(columns)] VALUES … | SELECT …`; no columns means all, in order."""

    target: str
    columns: tuple[str, ...]
    query: exp.Query
    position: Position | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Delete:
    """`DELETE FROM target [AS alias] [WHERE …]`; `query` selects the rows that go: `SELECT * FROM target …`."""

    target: str
    query: exp.Select
    position: Position | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Select:
    query: exp.Query


@dataclass(frozen=True, slots=True)
class Subscribe:
    name: str
    from_epoch: int = 0
    position: Position | None = field(default=None, compare=False)


Statement = (
    CreateStream
    | CreateTable
    | CreateView
    | CreateFunction
    | CreateSink
    | Drop
    | Rebuild
    | SetOption
    | Show
    | ShowCreate
    | Describe
    | Explain
    | Insert
    | Delete
    | Select
    | Subscribe
)
