"""CSV read by Arrow, as Spark's reader would read it, or not at all.

Owns the rules of what is taken. Spark's reader defines what a file means; the kernel is faster, and
takes only text on which both provably agree: every line has the columns of the stream, and every
value is spelt in a way that both read alike. It refuses anything else, a malformed row above all,
with `CsvRefusedError`, and whoever asked lets Spark read instead. What always holds: it never delivers
a row that Spark would deliver otherwise, or not at all. It must not repair, guess or skip.

Values are first cut out as text and then converted column by column, because Arrow's own conversion
while cutting forgives more than Spark does (blanks around numbers, hexadecimal digits).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.csv

UTC_TIMESTAMP = pa.timestamp("us", "UTC")
CHUNK_BYTES = 4 << 20
"""What a task holds of a file at a time. No line may be longer."""
TASK_BYTES = 32 << 20
"""At most this much is one task's."""

_DELIMITERS = frozenset(",;|\t")
_OPTIONS = frozenset({"header", "sep", "enforceSchema"})
# Names by which neither Hadoop nor Spark takes a file for a compressed one.
_PLAIN_SUFFIXES = frozenset({"", ".csv", ".tsv", ".psv", ".txt", ".tab", ".dat"})
_GLOB_CHARACTERS = frozenset("*?[]{}\\")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_NEWLINE, _RETURN, _BLANK, _QUOTE = b'\n\r "'

_INTEGER = b"-0123456789"
_DECIMAL = b"-.0123456789"
_FLOAT = b"+-.0123456789Ee"
# Arrow also reads 0 and 1.
_BOOLEAN = b"truefalsTRUEFALS"
_DATE = b"-0123456789"
_INSTANT = b"-.0123456789: TZ"
_SPELLINGS = {
    pa.bool_(): _BOOLEAN,
    pa.int8(): _INTEGER,
    pa.int16(): _INTEGER,
    pa.int32(): _INTEGER,
    pa.int64(): _INTEGER,
    pa.float32(): _FLOAT,
    pa.float64(): _FLOAT,
    pa.date32(): _DATE,
}
# A day; a day and hh:mm:ss; the same with one to six digits of a second. NULL has no length.
_INSTANT_LENGTHS = frozenset({0, 10, 19, *range(21, 27)})
_ZULU_LENGTHS = frozenset({0, 20, *range(22, 28)})


class CsvRefusedError(Exception):
    """The kernel does not take this input; nothing is said about whether it is good."""


@dataclass(frozen=True, slots=True)
class CsvRange:
    """The lines of a file that begin in a range of bytes, and the file as it was found."""

    path: str
    start: int
    end: int
    size: int
    modified_ns: int

    @property
    def landed(self) -> int:
        """When the rows arrived, in microseconds: of a file's time, Spark knows the milliseconds."""
        return self.modified_ns // 1_000_000 * 1_000


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

    @property
    def reads_time(self) -> bool:
        return any(pa.types.is_temporal(field.type) for field in self.schema)

    def output(self) -> pa.Schema:
        """The columns of the stream, instants with their zone, and `__landed`."""
        fields = [field.with_type(_delivered(field.type)) for field in self.schema]
        return pa.schema([*fields, pa.field("__landed", pa.int64())])

    def read(self, range_: CsvRange) -> Iterator[pa.RecordBatch]:
        """The rows of a range, a chunk at a time."""
        try:
            with open(range_.path, "rb") as file:
                found = os.fstat(file.fileno())
                if (found.st_size, found.st_mtime_ns) != (range_.size, range_.modified_ns):
                    raise CsvRefusedError(f"{range_.path} has changed")
                for text in self._chunks(file, range_):
                    # A chunk of blank lines has no rows, and Arrow would take it for an empty file.
                    if text and not text.isspace():
                        yield self._decode(text, range_.landed)
        except OSError as error:
            raise CsvRefusedError(f"{range_.path}: {error.strerror}") from error

    def _chunks(self, file: BinaryIO, range_: CsvRange) -> Iterator[bytes]:
        """Whole lines; a line belongs to the range in which it begins."""
        position = range_.start
        if position == 0:
            position = self._first_line(file)
        else:
            # The byte before tells whether a line begins here.
            file.seek(position - 1)
            position += _after_newline(file.read(CHUNK_BYTES)) - 1
        while position < range_.end:
            file.seek(position)
            text = file.read(min(CHUNK_BYTES, range_.end - position))
            if position + len(text) == range_.end:
                text += self._rest_of_line(file, text, range_)
            else:
                text = text[: _last_newline(text)]
            position += len(text)
            yield text

    def _first_line(self, file: BinaryIO) -> int:
        """Where the rows of a file begin."""
        text = file.read(CHUNK_BYTES)
        if text.startswith(_BYTE_ORDER_MARK):
            raise CsvRefusedError("a byte order mark")
        if not self.header or not text:
            return 0
        end = text.find(b"\n")
        line = text if end < 0 else text[: end + 1]
        # Which of the lines is the header then depends on how Spark splits the file.
        if not line.strip(bytes(range(33))):
            raise CsvRefusedError("a blank line before the header")
        if end < 0 and len(text) == CHUNK_BYTES:
            raise CsvRefusedError("a long line")
        self._check(line)
        return len(line)

    def _rest_of_line(self, file: BinaryIO, text: bytes, range_: CsvRange) -> bytes:
        if text.endswith(b"\n") or range_.end == range_.size:
            return b""
        file.seek(range_.end)
        rest = file.read(CHUNK_BYTES)
        end = rest.find(b"\n")
        if end < 0 and range_.end + len(rest) < range_.size:
            raise CsvRefusedError("a long line")
        return rest if end < 0 else rest[: end + 1]

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
            columns = [_convert(_joined(table.column(f.name)), f.type) for f in self.schema]
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


def split(paths: Sequence[str], parallelism: int) -> tuple[tuple[CsvRange, ...], ...]:
    """Files as tasks of equal size: one per core, or more where that would be much for one task.

    The files are cut as if they were one.
    """
    found = [(path, _stat(path)) for path in paths]
    total = sum(stat.st_size for _, stat in found)
    share = -(-total // max(1, parallelism))
    step = max(CHUNK_BYTES, min(share, TASK_BYTES))
    tasks: list[list[CsvRange]] = [[] for _ in range(-(-total // step))]
    before = 0
    for path, stat in found:
        start = 0
        while start < stat.st_size:
            task = (before + start) // step
            end = min(stat.st_size, (task + 1) * step - before)
            tasks[task].append(CsvRange(path, start, end, stat.st_size, stat.st_mtime_ns))
            start = end
        before += stat.st_size
    return tuple(tuple(task) for task in tasks)


def _stat(path: str) -> os.stat_result:
    if not _GLOB_CHARACTERS.isdisjoint(path) or os.path.splitext(path)[1] not in _PLAIN_SUFFIXES:
        raise CsvRefusedError(f"the name {path}")
    try:
        return os.stat(path)
    except OSError as error:
        raise CsvRefusedError(f"{path}: {error.strerror}") from error


# -- lines and quotes --------------------------------------------------------------------------


def _after_newline(text: bytes) -> int:
    """Where the next line begins; the end of the text, if that is the end of the file."""
    end = text.find(b"\n")
    if end < 0 and len(text) == CHUNK_BYTES:
        raise CsvRefusedError("a long line")
    return len(text) if end < 0 else end + 1


def _last_newline(text: bytes) -> int:
    end = text.rfind(b"\n")
    if end < 0:
        raise CsvRefusedError("a long line")
    return end + 1


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


def _joined(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _convert(column: pa.StringArray, type_: pa.DataType) -> pa.Array:
    """Values of a type from their text. Casting refuses what Arrow cannot read; the rest is up to us."""
    if pa.types.is_string(type_):
        return column
    if column.null_count == len(column):
        return pa.nulls(len(column), _delivered(type_))
    if pa.types.is_timestamp(type_):
        return _instants(column)
    _check_spelling(_characters(column), _DECIMAL if pa.types.is_decimal(type_) else _SPELLINGS[type_])
    return column.cast(type_)


def _instants(column: pa.StringArray) -> pa.Array:
    """Days and instants in their canonical form; either all of them say that they are in UTC, or none does."""
    text = _characters(column)
    _check_spelling(text, _INSTANT)
    lengths = np.diff(np.frombuffer(column.buffers()[1], np.int32, len(column) + 1, column.offset * 4))
    zoned = text.count(b"Z")
    allowed = _ZULU_LENGTHS if zoned else _INSTANT_LENGTHS
    if zoned not in (0, len(column) - column.null_count) or not allowed.issuperset(
        np.flatnonzero(np.bincount(lengths))
    ):
        raise CsvRefusedError("an instant in an unusual form")
    # Arrow asks for a zone in every value of a zoned column, and for none in the others.
    return column.cast(UTC_TIMESTAMP if zoned else pa.timestamp("us")).cast(UTC_TIMESTAMP)


def _characters(column: pa.StringArray) -> bytes:
    """All values of a column, one after the other."""
    offsets = np.frombuffer(column.buffers()[1], np.int32, len(column) + 1, column.offset * 4)
    start, end = int(offsets[0]), int(offsets[-1])
    data: bytes = column.buffers()[2].slice(start, end - start).to_pybytes()
    return data


def _check_spelling(text: bytes, characters: bytes) -> None:
    if rest := text.translate(None, characters):
        raise CsvRefusedError(f"the character {chr(rest[0])!r}")
