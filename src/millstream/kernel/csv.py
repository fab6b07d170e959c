"""CSV read by Arrow, as `kernel/records.py` and `kernel/decoding.py` would read it, or not at all.

Owns the rules of what is taken. Those two define what a file means; the kernel is faster, and
takes only text on which both provably agree: every line has the columns of the stream, and every
value is spelt in a way that both read alike. It refuses anything else, a malformed row above all,
with `CsvRefusedError`, and whoever asked reads record by record instead. What always holds: it never delivers
a row that would be delivered otherwise there, or not at all. It must not repair, guess or skip.

Values are first cut out as text and then converted column by column, because Arrow's own conversion
while cutting forgives more (blanks around numbers, hexadecimal digits).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.csv

from millstream.kernel import lines
from millstream.kernel.lines import LineFiles, LineRange, RefusedError
from millstream.kernel.spelling import DATE, UTC_TIMESTAMP, instants, joined, other_character

_DELIMITERS = frozenset(",;|\t")
_OPTIONS = frozenset({"header", "sep", "enforceSchema"})
_NEWLINE, _RETURN, _BLANK, _QUOTE = b'\n\r "'

_INTEGER = b"-0123456789"
_DECIMAL = b"-.0123456789"
_FLOAT = b"+-.0123456789Ee"
# Arrow also reads 0 and 1.
_BOOLEAN = b"truefalsTRUEFALS"
_SPELLINGS = {
    pa.bool_(): _BOOLEAN,
    pa.int8(): _INTEGER,
    pa.int16(): _INTEGER,
    pa.int32(): _INTEGER,
    pa.int64(): _INTEGER,
    pa.float32(): _FLOAT,
    pa.float64(): _FLOAT,
    pa.date32(): DATE,
}


class CsvRefusedError(RefusedError):
    """The CSV kernel does not take this input."""


_FILES = LineFiles(frozenset({"", ".csv", ".tsv", ".psv", ".txt", ".tab", ".dat"}), CsvRefusedError)
split = _FILES.split


@dataclass(frozen=True, slots=True)
class CsvKernel:
    """How the files of one stream are read."""

    schema: pa.Schema
    delimiter: str
    header: bool

    @classmethod
    def of(cls, schema: pa.Schema, options: Mapping[str, str]) -> CsvKernel:
        """The kernel for a schema and options of Spark's reader, unless it cannot keep to one of them."""
        if unknown := options.keys() - _OPTIONS:
            raise CsvRefusedError(f"reader option {sorted(unknown)[0]}")
        delimiter = options.get("sep", ",")
        if delimiter not in _DELIMITERS:
            raise CsvRefusedError(f"delimiter {delimiter!r}")
        if options.get("enforceSchema", "true") != "true" or options.get("header", "false") not in ("true", "false"):
            raise CsvRefusedError("an unusual value of an option")
        # With one column, a line of blanks is a value to Arrow and no line to Spark.
        if len(schema) < 2:
            raise CsvRefusedError("a single column")
        for field in schema:
            if not _is_taken(field.type):
                raise CsvRefusedError(f"column {field.name} of type {field.type}")
        return cls(schema, delimiter, options.get("header") == "true")

    def output(self) -> pa.Schema:
        """The columns of the stream, instants with their zone, and `__landed`."""
        fields = [field.with_type(_delivered(field.type)) for field in self.schema]
        return pa.schema([*fields, pa.field("__landed", pa.int64())])

    def read(self, range_: LineRange) -> Iterator[pa.RecordBatch]:
        """The rows of a range, a chunk at a time."""
        for text in _FILES.chunks(range_, self._begin):
            # A chunk of blank lines has no rows, and Arrow would take it for an empty file.
            if text and not text.isspace():
                yield self._decode(text, range_.landed)

    def _begin(self, text: bytes) -> int:
        """Where the rows of a file begin."""
        if not self.header or not text:
            return 0
        end = text.find(b"\n")
        line = text if end < 0 else text[: end + 1]
        # Which of the lines is the header then depends on how Spark splits the file.
        if not line.strip(bytes(range(33))):
            raise CsvRefusedError("a blank line before the header")
        if end < 0 and len(text) == lines.CHUNK_BYTES:
            raise CsvRefusedError("a long line")
        self._check(line)
        # Of a file with other columns, or in another order, Spark gets the fields in the order of the stream's.
        names = [name.strip().strip('"').lower() for name in line.decode(errors="replace").split(self.delimiter)]
        if names != [name.lower() for name in self.schema.names]:
            raise CsvRefusedError("a header with other columns than the stream, or in another order")
        return len(line)

    # -- text ----------------------------------------------------------------------------------

    def _decode(self, text: bytes, landed: int) -> pa.RecordBatch:
        quoted = self._check(text)
        names = self.schema.names
        try:
            table = pa.csv.read_csv(
                pa.BufferReader(text),
                pa.csv.ReadOptions(use_threads=False, block_size=len(text) + 1, column_names=names),
                pa.csv.ParseOptions(
                    delimiter=self.delimiter, quote_char='"' if quoted else False, double_quote=False, escape_char=False
                ),
                # An empty value is NULL, quoted or not, and of a text too.
                pa.csv.ConvertOptions(
                    column_types=dict.fromkeys(names, pa.string()),
                    null_values=[""],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=True,
                    check_utf8=True,
                ),
            )
            columns = [_convert(joined(table.column(f.name)), f.type) for f in self.schema]
        except pa.ArrowException as error:
            raise CsvRefusedError(str(error)) from None
        columns.append(pa.repeat(pa.scalar(landed, pa.int64()), table.num_rows))
        return pa.RecordBatch.from_arrays(columns, schema=self.output())

    def _check(self, text: bytes) -> bool:
        """Refuse what the readers see differently in lines, blanks and quotes; whether there are quotes."""
        if b"\0" in text:
            raise CsvRefusedError("a NUL")
        # To Spark a lone carriage return ends a line, wherever it stands.
        if b"\r" in text and text.count(b"\r") != text.count(b"\r\n"):
            raise CsvRefusedError("a carriage return alone")
        if self.delimiter <= " " and _begins_with_blank(text):
            raise CsvRefusedError("a line that begins with a blank")
        if b'"' not in text:
            return False
        if b"\\" in text:
            raise CsvRefusedError("quotes and backslashes")
        _check_quotes(text, ord(self.delimiter))
        return True


# -- lines and quotes --------------------------------------------------------------------------


def _begins_with_blank(text: bytes) -> bool:
    """Whether a line that is not empty begins with a blank: Spark skips lines of nothing else."""
    data = np.frombuffer(text, np.uint8)
    starts = np.flatnonzero(data == _NEWLINE) + 1
    first = data[np.append(0, starts[starts < len(data)])]
    return bool(((first <= _BLANK) & (first != _NEWLINE) & (first != _RETURN)).any())


def _check_quotes(text: bytes, delimiter: int) -> None:
    """Quotes come in pairs around whole values of one line, and never inside of a value."""
    data = np.frombuffer(text, np.uint8)
    places = np.flatnonzero(data == _QUOTE)
    if len(places) % 2:
        raise CsvRefusedError("a quote without its other one")
    opening, closing = places[0::2], places[1::2]
    before = data[opening[opening > 0] - 1]
    after = data[closing[closing < len(data) - 1] + 1]
    ends = [delimiter, _NEWLINE]
    if not np.isin(before, ends).all() or not np.isin(after, [*ends, _RETURN]).all():
        raise CsvRefusedError("a quote inside of a value")
    newlines = np.flatnonzero(data == _NEWLINE)
    if (np.searchsorted(newlines, opening) != np.searchsorted(newlines, closing)).any():
        raise CsvRefusedError("a value of several lines")


# -- values ------------------------------------------------------------------------------------


def _is_taken(type_: pa.DataType) -> bool:
    other = pa.types.is_string(type_) or pa.types.is_decimal128(type_) or type_ == pa.timestamp("us")
    return other or type_ in _SPELLINGS


def _delivered(type_: pa.DataType) -> pa.DataType:
    return UTC_TIMESTAMP if pa.types.is_timestamp(type_) else type_


def _convert(column: pa.StringArray, type_: pa.DataType) -> pa.Array:
    """Values of a type from their text. Casting refuses what Arrow cannot read; the rest is up to us."""
    if pa.types.is_string(type_):
        return column
    if column.null_count == len(column):
        return pa.nulls(len(column), _delivered(type_))
    if pa.types.is_timestamp(type_):
        values = instants(column)
        if values is None:
            raise CsvRefusedError("an instant in an unusual form")
        return values
    other = other_character(column, _DECIMAL if pa.types.is_decimal(type_) else _SPELLINGS[type_])
    if other is not None:
        raise CsvRefusedError(f"the character {other!r}")
    values = column.cast(type_)
    if pa.types.is_floating(type_) and not np.isfinite(values.drop_null().to_numpy()).all():
        raise CsvRefusedError("a number that is too large")
    return values
