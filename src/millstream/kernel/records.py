"""CSV files cut into records: the reading of files that the CSV kernel refuses.

Owns what a record of a CSV file is and which column a field belongs to. What always holds: every line of a file
is in exactly one record; a file is opened by its path, which is never a pattern; and fields follow the header of
their own file. Must not interpret values: `kernel/decoding.py` does.

A quoted value may span lines, and doubles the quotes in it (RFC 4180). A quote that this does not explain may be
escaped by a backslash, as Spark writes it. An opening quote that is never closed makes its line alone a dead letter.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import os
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from itertools import islice
from typing import BinaryIO, cast

import pyarrow as pa

from millstream.kernel.lines import BYTE_ORDER_MARK, landed_at

NOT_CLOSED = "malformed csv: a quote is not closed"
_BATCH_ROWS = 10_000
# A quoted value that is longer than this is taken for a quote that is not closed.
_LONGEST = 4 << 20
_BLANK = bytes(range(33))
_ESCAPED = re.compile(rb'\\(["\\])')
_QUOTED = re.compile(r'["\r\n]')

Row = tuple[bytes, bytes | None, str | None, int]
"""A record, the text to parse instead of it, its fault, and where it begins."""


class Quoting(Enum):
    """How a line ends, by the quotes in it."""

    CLOSED = "outside of quotes"
    OPEN = "inside of a quoted value"
    BROKEN = "after a quote that is followed by text"


def scan(line: bytes, delimiter: bytes, quoted: bool = False) -> Quoting:
    """How a line ends that begins inside of a quoted value, or not.

    >>> scan(b'1,"a ""b"', b",").name, scan(b'1,"a', b",").name, scan(b'b",2', b",", quoted=True).name
    ('CLOSED', 'OPEN', 'CLOSED')
    """
    at = 0
    while True:
        if quoted:
            at = line.find(b'"', at)
            if at < 0:
                return Quoting.OPEN
            if line[at + 1 : at + 2] == b'"':
                at += 2
                continue
            at += 1
            if at == len(line):
                return Quoting.CLOSED
            if not line.startswith(delimiter, at):
                return Quoting.BROKEN
            at += len(delimiter)
            quoted = False
        elif line[at : at + 1] == b'"':
            quoted, at = True, at + 1
        else:
            at = line.find(delimiter, at)
            if at < 0:
                return Quoting.CLOSED
            at += len(delimiter)


def cut(lines: Iterator[tuple[int, bytes]], delimiter: bytes) -> Iterator[Row]:
    """Lines, each with its place, as records. Blank lines are none."""
    waiting: list[tuple[int, bytes]] = []
    while True:
        at, line = waiting.pop(0) if waiting else next(lines, (-1, b""))
        if at < 0:
            return
        if not line.strip(_BLANK):
            continue
        state = scan(line, delimiter) if b'"' in line else Quoting.CLOSED
        if state is Quoting.CLOSED:
            yield line, None, None, at
            continue
        if state is Quoting.BROKEN:
            plain = _ESCAPED.sub(lambda found: b'""' if found[1] == b'"' else b"\\", line)
            yield line, plain if scan(plain, delimiter) is Quoting.CLOSED else None, None, at
            continue
        more: list[tuple[int, bytes]] = []
        size = 0
        while state is Quoting.OPEN and size <= _LONGEST:
            following = waiting.pop(0) if waiting else next(lines, None)
            if following is None:
                break
            more.append(following)
            size += len(following[1])
            state = scan(following[1], delimiter, quoted=True)
        if state is Quoting.CLOSED:
            yield b"\n".join([line, *(text for _, text in more)]), None, None, at
        else:
            yield line, None, NOT_CLOSED, at
            waiting[:0] = more


def fields_of(record: str, delimiter: str) -> list[str]:
    """The fields of a record whose quotes are closed."""
    if '"' not in record:
        return record.split(delimiter)
    if len(delimiter) > 1:
        return [field.strip('"') for field in record.split(delimiter)]
    csv.field_size_limit(2**31 - 1)
    return next(csv.reader(io.StringIO(record, newline=""), delimiter=delimiter), [])


def _decoded(record: bytes) -> str:
    return record.decode("utf-8", "surrogateescape")


@dataclass(frozen=True, slots=True)
class CsvReader:
    """How the CSV files of one stream become records, in an executor."""

    columns: tuple[str, ...]
    delimiter: str
    header: bool

    def read(self, files: Sequence[tuple[int, str]]) -> Iterator[pa.RecordBatch]:
        """The records of numbered files: as each stands in the file (`__raw`) and, where these differ, as it is parsed
        (`__text`); or its `__fault`. A file that cannot be read is one dead record with its path."""
        for number, path in files:
            landed = landed_at(os.stat(path).st_mtime_ns)
            rows = self._rows(path)
            while batch := list(islice(rows, _BATCH_ROWS)):
                raw, text, fault, at = zip(*batch, strict=True)
                columns = [pa.array(raw, pa.binary()), pa.array(text, pa.binary()), pa.array(fault, pa.string())]
                places = [[number] * len(batch), at, [landed] * len(batch)]
                columns += [pa.array(place, pa.int64()) for place in places]
                yield pa.RecordBatch.from_arrays(
                    columns, names=["__raw", "__text", "__fault", "__o", "__block", "__landed"]
                )

    def _rows(self, path: str) -> Iterator[Row]:
        try:
            with _open(path) as file:
                records = cut(_lines(file), self.delimiter.encode())
                yield from self._by_header(records) if self.header else records
        except FileNotFoundError:
            raise
        except (OSError, EOFError, zlib.error) as error:
            yield path.encode(errors="surrogateescape"), None, f"the file cannot be read: {error}", 0

    def _by_header(self, records: Iterator[Row]) -> Iterator[Row]:
        """Records with their fields in the order of the stream's columns."""
        first = next(records, None)
        if first is None:
            return
        names = [name.strip().lower() for name in fields_of(_decoded(first[1] or first[0]), self.delimiter)]
        wanted = [name.lower() for name in self.columns]
        if names == wanted:
            yield from records
            return
        missing = [name for name in wanted if names.count(name) != 1]
        fault = None
        if missing:
            problem = "no column" if missing[0] not in names else "more than one column"
            fault = f"the header of the file has {problem} {missing[0]!r}"
        places = [] if missing else [names.index(name) for name in wanted]
        for raw, text, own_fault, at in records:
            if fault or own_fault:
                yield raw, text, fault or own_fault, at
                continue
            fields = fields_of(_decoded(text or raw), self.delimiter)
            if len(fields) != len(names):
                yield raw, None, "malformed csv: not as many fields as the header has", at
            else:
                yield raw, self._joined([fields[place] for place in places]), None, at

    def _joined(self, fields: Sequence[str]) -> bytes:
        spelt = [
            '"' + field.replace('"', '""') + '"' if self.delimiter in field or _QUOTED.search(field) else field
            for field in fields
        ]
        return self.delimiter.join(spelt).encode("utf-8", "surrogateescape")


# -- files -------------------------------------------------------------------------------------

_DECOMPRESSED: dict[str, Callable[[BinaryIO], object]] = {
    ".gz": lambda file: gzip.GzipFile(fileobj=file),
    ".bz2": bz2.BZ2File,
    ".zst": lambda file: io.BufferedReader(pa.CompressedInputStream(file, "zstd")),
}


@contextmanager
def _open(path: str) -> Iterator[BinaryIO]:
    """A file as text, decompressed if its name says so."""
    with open(path, "rb") as file:
        decompressed = _DECOMPRESSED.get(os.path.splitext(path)[1])
        yield file if decompressed is None else cast("BinaryIO", decompressed(file))


def _lines(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """The lines of a file and where each begins. A carriage return ends a line, with a newline or alone."""
    at = 0
    for line in file:
        begins, at = at, at + len(line)
        text = line.removesuffix(b"\n").removesuffix(b"\r")
        if begins == 0:
            text = text.removeprefix(BYTE_ORDER_MARK)
        if b"\r" not in text:
            yield begins, text
            continue
        for part in text.split(b"\r"):
            yield begins, part
            begins += len(part) + 1
