"""`source = 'datagen'`: synthetic rows. Row n is a pure function of the seed and n, computed by Spark.

So the generator is replayable like a log, and as parallel as Spark is. Column rules are options:
`'fields.price.min'`, `max`, `values` (a comma-separated list), `cardinality`, `skew` (1 = uniform,
larger = the first values are hotter), `kind` = sequence, `null_share`, `prefix`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import pyarrow as pa
from pydantic import Field

from millstream.model.errors import MillstreamError, did_you_mean
from millstream.model.schema import Column, Schema, spark_type
from millstream.model.settings import Duration
from millstream.model.time import MICROS, Clock, to_datetime, to_micros
from millstream.plan.slices import GeneratedSlice
from millstream.sources.options import StreamOptions
from millstream.sources.protocol import Cut, Offsets, Opening, Source

_RULES = frozenset({"min", "max", "values", "cardinality", "skew", "kind", "null_share", "prefix"})


class DatagenOptions(StreamOptions):
    """`source = 'datagen'`: synthetic rows, the n-th always the same for one seed."""

    seed: int = 0
    rows: int | None = Field(default=None, ge=0)
    rate: float | None = Field(default=None, gt=0)
    """Rows per second; without it as fast as possible, which needs `rows`."""
    start: str | None = None
    """Event time of the first row."""
    interval: Duration | None = None
    """Event time between two rows; by default 1 / rate, or a millisecond."""
    disorder: Duration | None = None
    late_share: float = Field(default=0, ge=0, le=1)
    late_by: Duration | None = None
    fields: dict[str, dict[str, str]] = Field(default_factory=dict)

    @classmethod
    def accepts(cls, name: str) -> bool:
        return name.startswith("fields.") and name.count(".") == 2

    @classmethod
    def shape(cls, options: dict[str, str]) -> dict[str, Any]:
        flat: dict[str, Any] = {name: value for name, value in options.items() if not cls.accepts(name)}
        rules: dict[str, dict[str, str]] = {}
        for name, value in options.items():
            if cls.accepts(name):
                _, column, rule = name.split(".")
                rules.setdefault(column, {})[rule] = value
        return {**flat, "fields": rules}

    @classmethod
    def completed(cls, options: Mapping[str, str], now: int) -> Mapping[str, str]:
        """Generated rows must stay what they are: note when they begin."""
        return {} if "start" in options else {"start": to_datetime(now).isoformat(sep=" ")}


class DatagenSource(Source):
    """Offset n of the one partition is row n."""

    def __init__(self, options: DatagenOptions, schema: Schema, event_time: str | None, clock: Clock) -> None:
        if options.rows is None and options.rate is None:
            raise MillstreamError(
                "BAD_OPTION",
                "a generator without an end needs a rate",
                hint="say rows = '1000000', or rate = '1000' (rows per second)",
            )
        self._options = options
        self._clock = clock
        self._started_at = _instant(options.start) if options.start else clock.now()
        self._columns = _columns(options, schema, event_time, self._started_at)
        self._born_at = clock.now()

    @property
    def partitions(self) -> int:
        return 1

    def start(self) -> Offsets:
        return {0: 0}

    def end(self) -> Offsets:
        return {0: self._available()}

    def resume(self, offsets: Offsets) -> None:
        """Go on at the set rate from where the store is."""
        if self._options.rate is not None:
            self._born_at = self._clock.now() - int(offsets.get(0, 0) / self._options.rate * MICROS)

    def waiting(self, offsets: Offsets) -> int:
        return max(0, self._available() - offsets.get(0, 0))

    def cut(self, offsets: Offsets, limit: int, until: Offsets | None = None) -> Cut | None:
        first = offsets.get(0, 0)
        end = self._available() if until is None else until.get(0, 0)
        end = min(end, first + limit)
        if end <= first:
            return None
        return Cut(GeneratedSlice(first, end, self._columns), {0: end}, length=end - first)

    def _available(self) -> int:
        options = self._options
        if options.rate is None:
            return options.rows or 0
        due = int((self._clock.now() - self._born_at) / MICROS * options.rate)
        return due if options.rows is None else min(due, options.rows)

    def close(self) -> None:
        pass


def open_datagen(options: DatagenOptions, opening: Opening) -> DatagenSource:
    source = DatagenSource(options, opening.stream.schema, opening.stream.event_time, opening.clock)
    reached = opening.progress()
    if reached is not None:
        source.resume(reached)
    return source


def _columns(
    options: DatagenOptions, schema: Schema, event_time: str | None, started_at: int
) -> tuple[tuple[str, str], ...]:
    for name, rules in options.fields.items():
        if schema.find(name) is None:
            raise MillstreamError(
                "UNKNOWN_COLUMN",
                f"fields.{name}: the stream has no such column",
                hint=did_you_mean(name, (n.lower() for n in schema.names())),
            )
        for rule in rules:
            if rule not in _RULES:
                raise MillstreamError(
                    "UNKNOWN_OPTION", f"fields.{name}.{rule}: no such rule", hint=did_you_mean(rule, _RULES)
                )
    instant = _event_time_sql(options, started_at)
    return tuple(
        (
            column.name,
            instant
            if pa.types.is_timestamp(column.type)
            else _value_sql(column, options.fields.get(column.name.lower(), {}), options.seed),
        )
        for column in schema.columns
    )


def _uniform(seed: int, salt: str) -> str:
    """A number in [0, 1) that depends on the row, the seed and the salt alone."""
    return f"(pmod(xxhash64(id, {seed}L, '{salt}'), 9007199254740992L) / 9007199254740992D)"


def _event_time_sql(options: DatagenOptions, started_at: int) -> str:
    step = options.interval or (int(MICROS / options.rate) if options.rate else 1_000)
    micros = f"{started_at}L + id * {step}L"
    if options.disorder:
        micros += f" - CAST({_uniform(options.seed, '__disorder')} * {options.disorder} AS BIGINT)"
    if options.late_share and options.late_by:
        late = f"{_uniform(options.seed, '__late')} < {options.late_share}D"
        micros += f" - IF({late}, CAST({_uniform(options.seed, '__late_by')} * {options.late_by} AS BIGINT), 0L)"
    return f"timestamp_micros({micros})"


def _value_sql(column: Column, rules: dict[str, str], seed: int) -> str:
    u = _uniform(seed, column.name)
    if "skew" in rules:
        u = f"pow({u}, {float(rules['skew'])}D)"
    type_ = column.type
    if rules.get("kind") == "sequence":
        value = "id"
    elif "values" in rules:
        values = [value.strip().replace("'", "''") for value in rules["values"].split(",")]
        listed = ", ".join(f"'{value}'" for value in values)
        value = f"element_at(array({listed}), CAST(floor({u} * {len(values)}) AS INT) + 1)"
    elif pa.types.is_boolean(type_):
        value = f"{u} < 0.5"
    elif pa.types.is_string(type_):
        if "cardinality" in rules:
            prefix = rules.get("prefix", f"{column.name}-").replace("'", "''")
            value = f"concat('{prefix}', CAST(floor({u} * {int(rules['cardinality'])}) AS BIGINT))"
        else:
            value = f"substr(md5(CAST({u} AS STRING)), 1, 8)"
    elif pa.types.is_floating(type_) or pa.types.is_decimal(type_):
        low, high = float(rules.get("min", "0")), float(rules.get("max", "1"))
        value = f"{low}D + {u} * {high - low}D"
    elif pa.types.is_integer(type_):
        low = int(rules.get("min", "0"))
        count = int(rules.get("cardinality", "0")) or int(rules.get("max", "999")) - low + 1
        value = f"{low}L + CAST(floor({u} * {count}) AS BIGINT)"
    elif pa.types.is_date(type_):
        value = f"date_add(DATE'2024-01-01', CAST(floor({u} * 365) AS INT))"
    else:
        value = "NULL"
    if "null_share" in rules:
        value = f"IF({_uniform(seed, column.name + '__null')} < {float(rules['null_share'])}D, NULL, {value})"
    return f"CAST({value} AS {spark_type(type_)})"


def _instant(text: str) -> int:
    try:
        return to_micros(datetime.fromisoformat(text))
    except ValueError:
        raise MillstreamError(
            "BAD_OPTION", f"start = {text!r} is not an instant", hint="write it as '2024-01-01 00:00:00'"
        ) from None
