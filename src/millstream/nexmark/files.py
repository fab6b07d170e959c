"""The events as files: a directory of Parquet, CSV or JSON lines for each kind.

Owns the formats. A file has its final name only once it is complete, so a stream that reads the
directory meanwhile never sees half of one; files are written in the order of arrival, which is the
order in which such a stream reads them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from millstream.model.errors import MillstreamError
from millstream.nexmark.formats import FileFormat
from millstream.nexmark.generator import BLOCK, Nexmark
from millstream.nexmark.rows import AUCTION, BID, PERSON

KINDS = {"person": PERSON, "auction": AUCTION, "bid": BID}
_CHUNK = 10 * BLOCK
_FEW_VALUES = ["name", "city", "state", "channel", "url"]
"""Worth a dictionary; the other texts are all different."""


class _Writer(Protocol):
    def write(self, rows: pa.Table) -> None: ...

    def close(self) -> None: ...


class _Parquet:
    def __init__(self, file: IO[bytes], schema: pa.Schema) -> None:
        # With the zone Spark reads instants, without it wall-clock times.
        fields = [field.with_type(_zoned(field.type)) for field in schema]
        self._schema = pa.schema(fields)
        dictionary = [name for name in _FEW_VALUES if name in schema.names]
        self._writer = pq.ParquetWriter(file, self._schema, use_dictionary=dictionary, store_schema=False)

    def write(self, rows: pa.Table) -> None:
        self._writer.write_table(rows.cast(self._schema))

    def close(self) -> None:
        self._writer.close()


class _Csv:
    """Columns in order, without a header, as a stream with `format = 'csv'` reads them."""

    def __init__(self, file: IO[bytes], schema: pa.Schema) -> None:
        options = pa_csv.WriteOptions(include_header=False, quoting_style="none")
        self._writer = pa_csv.CSVWriter(file, schema, write_options=options)

    def write(self, rows: pa.Table) -> None:
        self._writer.write_table(rows)

    def close(self) -> None:
        self._writer.close()


class _Json:
    """An object a line. No text holds a character that JSON would have to escape."""

    def __init__(self, file: IO[bytes], schema: pa.Schema) -> None:
        self._file = file

    def write(self, rows: pa.Table) -> None:
        for batch in rows.to_batches():
            parts: list[pa.Array | str] = []
            for field, column in zip(batch.schema, batch.columns, strict=True):
                quote = "" if pa.types.is_integer(field.type) else '"'
                parts += [f'{", " if parts else "{"}"{field.name}": {quote}', column.cast(pa.string()), quote]
            lines = pc.binary_join_element_wise(*parts, "}\n", "")
            _, offsets, text = lines.buffers()
            end = np.frombuffer(offsets, np.int32)[len(lines)]
            self._file.write(memoryview(text)[:end])

    def close(self) -> None:
        pass


_WRITERS: dict[FileFormat, Callable[[IO[bytes], pa.Schema], _Writer]] = {
    FileFormat.PARQUET: _Parquet,
    FileFormat.CSV: _Csv,
    FileFormat.JSON: _Json,
}


def write_files(
    nexmark: Nexmark,
    events: int,
    directory: Path,
    *,
    format: FileFormat = FileFormat.PARQUET,
    files: int = 1,
    written: Callable[[int], object] = lambda events: None,
) -> dict[str, int]:
    """Write the first events below `person`, `auction` and `bid`; how many rows of each.

    `written` is told how many more events are on their way to disk.
    """
    if events < 1:
        raise MillstreamError("BAD_OPTION", f"{events} events cannot be written", hint="give a number from 1 on")
    if not 1 <= files <= events:
        raise MillstreamError(
            "BAD_OPTION",
            f"{events:,} events cannot be {files} files",
            hint="give a number from 1 to that of the events",
        )
    rows = dict.fromkeys(KINDS, 0)
    try:
        _make_room(directory)
        for index in range(files):
            start, end = events * index // files, events * (index + 1) // files
            with _open_files(directory, index, format) as writers:
                for first in range(start, end, _CHUNK):
                    chunk = nexmark.events(first, min(first + _CHUNK, end))
                    for kind, table in chunk.tables().items():
                        writers[kind].write(table)
                        rows[kind] += table.num_rows
                    written(chunk.rows)
    except OSError as error:
        raise MillstreamError(
            "FILE_NOT_WRITABLE", f"cannot write to {directory}: {error.strerror or error}", hint="give another --out"
        ) from None
    return rows


def _make_room(directory: Path) -> None:
    for kind in KINDS:
        path = directory / kind
        path.mkdir(parents=True, exist_ok=True)
        if any(path.iterdir()):
            raise MillstreamError(
                "OUTPUT_EXISTS",
                f"{path} is not empty",
                hint="remove it or give another directory; rows of two runs would count as one input",
            )


@contextmanager
def _open_files(directory: Path, index: int, format: FileFormat) -> Iterator[dict[str, _Writer]]:
    """A file of each kind; they get their names once everything is in them."""
    suffix = "jsonl" if format is FileFormat.JSON else str(format)
    finals = {kind: directory / kind / f"{kind}-{index:05d}.{suffix}" for kind in KINDS}
    hidden = {kind: path.with_name(f".{path.name}") for kind, path in finals.items()}
    try:
        with ExitStack() as opened:
            writers: dict[str, _Writer] = {}
            for kind, path in hidden.items():
                file = opened.enter_context(path.open("wb"))
                writers[kind] = _WRITERS[format](file, KINDS[kind])
                opened.callback(writers[kind].close)
            yield writers
        for kind, path in hidden.items():
            os.replace(path, finals[kind])
    finally:
        for path in hidden.values():
            path.unlink(missing_ok=True)


def _zoned(type_: pa.DataType) -> pa.DataType:
    return pa.timestamp(type_.unit, "UTC") if pa.types.is_timestamp(type_) else type_
