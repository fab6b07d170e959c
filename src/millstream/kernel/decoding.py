"""Lines as rows: each line is a row, or has the reason why it cannot be one.

Owns what a line means: an object of JSON, or a record of CSV. The meaning of its values is `kernel/values.py`'s.
What always holds: there is a row for every line, in order; the row of a line that cannot be read is NULL throughout,
and its reason says why. `JsonKernel` is faster and takes plain lines only; what it takes means the same here. Must not
know where lines are from, nor whether a row that can be read is of use.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from millstream.kernel.json_lines import JsonKernel
from millstream.kernel.lines import RefusedError
from millstream.kernel.records import Quoting, cut, fields_of, scan
from millstream.kernel.values import MisfitError, Pairs, json_value, misfit, read_column, read_texts, shown
from millstream.plan.slices import CUT_LINE

# The faster way refuses this many lines together.
_TOGETHER = 500


@dataclass(frozen=True, slots=True)
class Decoded:
    """Rows and, for each that could not be read, the reason."""

    rows: pa.Table
    reasons: pa.Array


@dataclass(frozen=True, slots=True)
class LineDecoder:
    """Reads the lines of one stream."""

    schema: pa.Schema
    format: Literal["json", "csv"]
    delimiter: str = ","

    def decode(self, lines: Sequence[bytes | None]) -> Decoded:
        """The rows of lines, which are records if the format is CSV."""
        kernel = self._kernel()
        parts = [self._part(lines[at : at + _TOGETHER], kernel) for at in range(0, len(lines), _TOGETHER)]
        if not parts:
            return Decoded(self.schema.empty_table(), pa.array([], pa.string()))
        return Decoded(
            pa.concat_tables([part.rows for part in parts]), pa.concat_arrays([part.reasons for part in parts])
        )

    def _kernel(self) -> JsonKernel | None:
        try:
            return JsonKernel.of(self.schema, {}) if self.format == "json" else None
        except RefusedError:
            return None

    def _part(self, lines: Sequence[bytes | None], kernel: JsonKernel | None) -> Decoded:
        if kernel is not None:
            try:
                return Decoded(kernel.decode(pa.array(lines, pa.binary())), pa.nulls(len(lines), pa.string()))
            except RefusedError:
                pass
        reasons: list[str | None] = [None] * len(lines)
        nothing: tuple[Any, ...] = (None,) * len(self.schema)
        rows: list[Sequence[Any]] = []
        names = frozenset(self.schema.names)
        for number, line in enumerate(lines):
            try:
                text = _text(line, self.format)
                rows.append(self._object(text, names) if self.format == "json" else self._record(text))
            except MisfitError as error:
                rows.append(nothing)
                reasons[number] = str(error)
        return self._columns(rows, reasons)

    def _columns(self, rows: Sequence[Sequence[Any]], reasons: list[str | None]) -> Decoded:
        read = read_column if self.format == "json" else read_texts
        columns = []
        for field, values in zip(self.schema, zip(*rows, strict=True), strict=True):
            column, misfits = read(values, field.type)
            columns.append(column)
            for number, value in misfits.items():
                reasons[number] = reasons[number] or f"malformed {self.format}: {misfit(field.name, field.type, value)}"
        why = pa.array(reasons, pa.string())
        if why.null_count < len(why):
            # Of a row that is dead nothing is kept but its line.
            good = why.is_null()
            columns = [pc.if_else(good, column, pa.scalar(None, column.type)) for column in columns]
        return Decoded(pa.Table.from_arrays(columns, schema=self.schema), why)

    # -- JSON ----------------------------------------------------------------------------------

    def _object(self, text: str, names: frozenset[str]) -> Sequence[Any]:
        """The values of an object, in the order of the columns. Keys are found in any case."""
        try:
            value = json_value(text)
        except json.JSONDecodeError as error:
            raise MisfitError(f"malformed json: {error.msg} at character {error.pos}") from None
        except RecursionError:
            raise MisfitError("malformed json: nested too deeply") from None
        except (ValueError, ArithmeticError):
            raise MisfitError("malformed json: a number with too many digits") from None
        if not isinstance(value, Pairs):
            raise MisfitError(f"malformed json: expected an object, got {shown(value)}")
        found = dict(value)
        if len(found) == len(value) and names.issuperset(found):
            return [found.get(name) for name in self.schema.names]
        return self._by_name(value)

    def _by_name(self, pairs: Pairs) -> Sequence[Any]:
        places = {name.lower(): place for place, name in enumerate(self.schema.names)}
        row: list[Any] = [None] * len(self.schema)
        given: set[int] = set()
        for key, value in pairs:
            place = places.get(key.lower())
            if place is None:
                continue
            if place in given:
                raise MisfitError(f"malformed json: {self.schema.names[place]} is given twice")
            given.add(place)
            row[place] = value
        return row

    # -- CSV -----------------------------------------------------------------------------------

    def _record(self, text: str) -> Sequence[Any]:
        """The fields of a record; an empty one is NULL, quoted or not."""
        if '"' in text:
            text = _unescaped(text, self.delimiter)
        fields = fields_of(text, self.delimiter)
        if not text.strip():
            raise MisfitError("malformed csv: a line without values")
        if len(fields) != len(self.schema):
            raise MisfitError(f"malformed csv: got {len(fields)} values for {len(self.schema)} columns")
        return [field or None for field in fields]


def _unescaped(record: str, delimiter: str) -> str:
    """A record with its quotes doubled where a backslash escapes them."""
    encoded = record.encode()
    line, instead, fault, _ = next(cut(iter([(0, encoded)]), delimiter.encode()), (encoded, None, None, 0))
    if fault is not None:
        raise MisfitError(fault)
    if scan(instead or line, delimiter.encode()) is not Quoting.CLOSED:
        raise MisfitError("malformed csv: a value goes on after its closing quote")
    return (instead or line).decode()


def _text(line: bytes | None, format_: str) -> str:
    if line is None:
        raise MisfitError(f"malformed {format_}")
    try:
        return line.decode()
    except UnicodeDecodeError:
        raise MisfitError("line too long" if line.endswith(CUT_LINE) else "invalid UTF-8") from None
