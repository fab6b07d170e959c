"""JSON lines decoded by Arrow, as `kernel/decoding.py` would decode them, or not at all.

Owns the rules of what is taken. `kernel/decoding.py` defines what a line means; the kernel is faster, and takes only
text on which both provably agree: every line is one flat object, and every value of a column is spelt
in a way that both read alike. It refuses anything else, a malformed line above all, with
`JsonRefusedError`, and whoever asked decodes line by line instead. What always holds: it never delivers a
row that would be delivered otherwise there, or not at all. It must not repair, guess or skip.

Arrow's reader does not look at lines: it takes several objects on one, objects over several, and
crashes on a text of nothing but `null`. So that each line is one object is established first, from the
places of braces; only then is Arrow asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from millstream.kernel import lines as files
from millstream.kernel.lines import LineFiles, LineRange, RefusedError
from millstream.kernel.spelling import DATE, UTC_TIMESTAMP, instants, joined, other_character

_NEWLINE, _RETURN, _OPEN, _CLOSE = b"\n\r{}"
# Numbers and names, which Spark's parser limits in length, are never so long in shorter lines.
_SHORT_LINE = 1000
_LONG_NUMBER = re.compile(rb"[-+.0-9eE]{500}")
# A text is searched by so much at a time: what is noted of it then stays in the cache.
_BLOCK = 1 << 17
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')
_ESCAPED_KEY = re.compile(rb'(?<!\\)"[^"\\]*\\.(?:[^"\\]|\\.)*"[ \t]*:')
# Spark's own name for the column of malformed lines.
_CORRUPT = "_corrupt_record"
_INSTANT = pa.timestamp("us")
_TYPES = frozenset(
    {
        pa.bool_(),
        pa.int8(),
        pa.int16(),
        pa.int32(),
        pa.int64(),
        pa.float32(),
        pa.float64(),
        pa.string(),
        pa.date32(),
        _INSTANT,
    }
)


class JsonRefusedError(RefusedError):
    """The JSON kernel does not take this input."""


_FILES = LineFiles(frozenset({"", ".json", ".jsonl", ".ndjson", ".txt", ".log", ".dat"}), JsonRefusedError)
split = _FILES.split


@dataclass(frozen=True, slots=True)
class JsonKernel:
    """How the lines of one stream are decoded."""

    schema: pa.Schema

    @classmethod
    def of(cls, schema: pa.Schema, options: Mapping[str, str]) -> JsonKernel:
        """The kernel for a schema and options of Spark's reader, unless it cannot keep to one of them."""
        if options:
            raise JsonRefusedError(f"reader option {sorted(options)[0]}")
        names = schema.names
        if not names or len(set(names)) < len(names) or _CORRUPT in names:
            raise JsonRefusedError("the names of the columns")
        for field in schema:
            if field.type not in _TYPES and not pa.types.is_decimal128(field.type):
                raise JsonRefusedError(f"column {field.name} of type {field.type}")
        return cls(schema)

    def output(self) -> pa.Schema:
        """What `read` delivers: the columns of the stream, instants with their zone, and `__landed`."""
        fields = [f.with_type(UTC_TIMESTAMP) if f.type == _INSTANT else f for f in self.schema]
        return pa.schema([*fields, pa.field("__landed", pa.int64())])

    def read(self, range_: LineRange) -> Iterator[pa.RecordBatch]:
        """The rows of a range of a file, a chunk at a time."""
        for text in _FILES.chunks(range_):
            table = self.decode(text)
            if table.num_rows:
                columns = [joined(column) for column in table.columns]
                columns.append(pa.repeat(pa.scalar(range_.landed, pa.int64()), table.num_rows))
                output = self.output()
                columns = [c.cast(f.type) for c, f in zip(columns, output, strict=True)]
                yield pa.RecordBatch.from_arrays(columns, schema=output)

    def lines(self, range_: LineRange) -> Iterator[str]:
        """The lines of a range, as `read` has a row of each."""
        for text in _FILES.chunks(range_):
            for line in text.split(b"\n"):
                if line.removesuffix(b"\r").strip(b" "):
                    yield line.removesuffix(b"\r").decode()

    def decode(self, lines: pa.Array | bytes) -> pa.Table:
        """A row for every line: of an array of lines, or of a text, whose blank lines are none.

        Instants are in UTC and do not say so.
        """
        text = lines if isinstance(lines, bytes) else _text(lines)
        starts, ends, blank = _lines(text)
        if not isinstance(lines, bytes) and len(lines) and (blank or len(starts) != len(lines)):
            raise JsonRefusedError("a line that is blank, or several")
        if not len(starts):
            return self.schema.empty_table()
        _check_objects(text, starts, ends)
        table = self._parse(text, int((ends - starts).max()))
        if table.num_rows != len(starts):
            raise JsonRefusedError("other than an object a line")
        try:
            columns = [_convert(joined(table.column(f.name)), f.type) for f in self.schema]
        except pa.ArrowException as error:
            raise JsonRefusedError(str(error)) from None
        return pa.Table.from_arrays(columns, schema=self.schema)

    def _parse(self, text: bytes, longest: int) -> pa.Table:
        if longest > files.CHUNK_BYTES:
            raise JsonRefusedError("a long line")
        if longest > _SHORT_LINE and _LONG_NUMBER.search(text):
            raise JsonRefusedError("a long number")
        try:
            return self._read(text, "error")
        except pa.ArrowException as error:
            # Of fields that are no columns, a number may be too long for Arrow's parser, or be called `Inf`.
            if longest > _SHORT_LINE or _contains(text, b"NaN") or _contains(text, b"Inf"):
                raise JsonRefusedError(str(error)) from None
        try:
            return self._read(_with_names(text, self.schema.names), "ignore")
        except pa.ArrowException as error:
            raise JsonRefusedError(str(error)) from None

    def _read(self, text: bytes, other_fields: str) -> pa.Table:
        return pa.json.read_json(
            pa.BufferReader(text),
            # A block ends with a line; no line is longer than one.
            pa.json.ReadOptions(use_threads=False, block_size=min(len(text), files.CHUNK_BYTES) + 2),
            pa.json.ParseOptions(
                explicit_schema=pa.schema([(field.name, _parsed(field.type)) for field in self.schema]),
                newlines_in_values=False,
                unexpected_field_behavior=other_fields,
            ),
        )


# -- names -------------------------------------------------------------------------------------


def _with_names(text: bytes, names: Sequence[str]) -> bytes:
    """A text of flat objects with keys that are columns in another case spelt as the columns are.

    Arrow would take them for other fields. In a value the quotes of a key would be escaped.
    """
    if b"\\" in text and _ESCAPED_KEY.search(text):
        raise JsonRefusedError("a key with an escape")
    lower = text.lower()
    for name in names:
        key = b'"%b"' % name.encode()
        if name.isascii() and lower.count(key.lower()) == text.count(key):
            continue
        pattern = f'(?<!\\\\)"{re.escape(name)}"[ \\t]*:'
        # A backslash in what replaces it would be an escape; no name has one.
        if name.isascii():
            text = re.sub(pattern.encode(), key + b":", text, flags=re.IGNORECASE)
        else:
            text = re.sub(pattern, f'"{name}":', text.decode(), flags=re.IGNORECASE).encode()
    return text


# -- lines -------------------------------------------------------------------------------------


def _text(lines: pa.Array) -> bytes:
    """Lines as one text."""
    if lines.null_count:
        raise JsonRefusedError("a line that is NULL")
    if not len(lines):
        return b""
    as_bytes = lines.cast(pa.large_binary())
    all_of_them = pa.LargeListArray.from_arrays(pa.array([0, len(lines)], pa.int64()), as_bytes)
    text: bytes = pc.binary_join(all_of_them, pa.scalar(b"\n", pa.large_binary()))[0].as_py()
    return text


def _lines(text: bytes) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], int]:
    """Where the lines begin and end that are not blank, and how many are; each begins and ends with a brace."""
    if b"\0" in text:
        raise JsonRefusedError("a NUL")
    # To Spark a lone carriage return ends a line of a file.
    returns = b"\r" in text
    if returns and text.count(b"\r") != text.count(b"\r\n"):
        raise JsonRefusedError("a carriage return alone")
    if not text.isascii():
        try:
            text.decode()
        except UnicodeDecodeError:
            raise JsonRefusedError("invalid UTF-8") from None
    data = np.frombuffer(text, np.uint8)
    ends = _places(data, _NEWLINE)
    starts = np.append(0, ends + 1)
    ends = np.append(ends, len(data))
    count = len(starts)
    if returns:
        ends = ends - ((ends > starts) & (data[ends - 1] == _RETURN))
    filled = ends > starts
    if not filled.all():
        starts, ends = starts[filled], ends[filled]
    good = (data[starts] == _OPEN) & (data[ends - 1] == _CLOSE)
    if not good.all():
        # Spark skips lines of spaces, and only of spaces.
        if any(text[start:end].strip(b" ") for start, end in zip(starts[~good], ends[~good], strict=True)):
            raise JsonRefusedError("a line that is no object")
        starts, ends = starts[good], ends[good]
    return starts, ends, count - len(starts)


def _check_objects(text: bytes, starts: npt.NDArray[np.intp], ends: npt.NDArray[np.intp]) -> None:
    """No braces but the first and the last character of each line, except in strings.

    No string contains a line break, so what opens at the beginning of a line is closed at its end.
    """
    data = np.frombuffer(text, np.uint8)
    if _count(data, _OPEN) == _count(data, _CLOSE) == len(starts):
        return
    braces = np.append(_places(data, _OPEN), _places(data, _CLOSE))
    per_line = np.bincount(np.searchsorted(ends, braces))
    for index in np.flatnonzero(per_line > 2):
        rest = _STRING.sub(b"", text[starts[index] : ends[index]])
        if rest.count(b"{") != 1 or rest.count(b"}") != 1 or not rest.endswith(b"}") or b'"' in rest:
            raise JsonRefusedError("an object inside of a line")


def _contains(text: bytes, word: bytes) -> bool:
    """Whether a word is in a text: sooner than Python tells, in a text that has some of its letters."""
    if word[:1] not in text:
        return False
    data = np.frombuffer(text, np.uint8)
    places = _places(data[: len(data) - len(word) + 1], word[0])
    for index, character in enumerate(word):
        places = places[data[places + index] == character]
    return bool(len(places))


def _count(data: npt.NDArray[np.uint8], character: int) -> int:
    return sum(int(np.count_nonzero(data[at : at + _BLOCK] == character)) for at in range(0, len(data), _BLOCK))


def _places(data: npt.NDArray[np.uint8], character: int) -> npt.NDArray[np.intp]:
    blocks = [np.flatnonzero(data[at : at + _BLOCK] == character) + at for at in range(0, len(data), _BLOCK)]
    return np.concatenate(blocks) if blocks else np.empty(0, np.intp)


# -- values ------------------------------------------------------------------------------------


def _parsed(type_: pa.DataType) -> pa.DataType:
    """What Arrow's reader makes of a column; it would read time in more forms than Spark."""
    return pa.string() if pa.types.is_temporal(type_) else type_


def _convert(column: pa.Array, type_: pa.DataType) -> pa.Array:
    """A column as it is delivered. Casting refuses what Arrow cannot read; the rest is up to us."""
    if column.null_count == len(column):
        return pa.nulls(len(column), type_)
    if pa.types.is_floating(type_):
        _check_floats(column.drop_null().to_numpy())
    elif pa.types.is_decimal(type_):
        # Arrow's reader keeps to the scale, and not to the precision.
        column.validate(full=True)
    elif type_ == pa.date32():
        if other_character(column, DATE) is not None:
            raise JsonRefusedError("a date in an unusual form")
        return column.cast(type_)
    elif type_ == _INSTANT:
        values = instants(column)
        if values is None:
            raise JsonRefusedError("an instant in an unusual form")
        return values.cast(_INSTANT)
    return column


def _check_floats(values: npt.NDArray[np.floating]) -> None:
    """Arrow calls infinities other names, and makes one of a number that is too large."""
    if not np.isfinite(values).all() or (np.signbit(values) & (values == 0)).any():
        raise JsonRefusedError("an infinity, NaN or a negative zero")
