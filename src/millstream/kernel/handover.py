"""Tables on their way from a task to the driver.

Through Spark, a table is copied several times on its way, at some 50 MB a second. Where driver and
executors are on one machine a large one is left in a file instead, and only its name travels. A file belongs
to the driver once its name has arrived; one of a task that failed is found when the directory is opened next.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

# So little is sooner sent than written.
_SMALL_BYTES = 32 << 10

Parcel = bytes | str
"""An Arrow stream, or the path of the file that has it."""


def send(table: pa.Table, directory: str | None) -> Parcel:
    """A table for the driver; through `directory`, if there is one that both can reach."""
    if directory is None or table.nbytes <= _SMALL_BYTES:
        sink = pa.BufferOutputStream()
        _write(table, sink)
        data: bytes = sink.getvalue().to_pybytes()
        return data
    path = os.path.join(directory, uuid.uuid4().hex)
    try:
        with pa.OSFile(path, "wb") as file:
            _write(table, file)
    except OSError:
        # A full disk is for the store to report.
        with suppress(OSError):
            os.unlink(path)
        return send(table, None)
    return path


def receive(parcel: Parcel) -> pa.Table:
    """The table, once: a file is gone as soon as its rows are mapped into memory."""
    if isinstance(parcel, bytes):
        return pa.ipc.open_stream(parcel).read_all()
    rows = pa.ipc.open_stream(pa.memory_map(parcel)).read_all()
    os.unlink(parcel)
    return rows


def drop(parcels: Iterable[Parcel | None]) -> None:
    """Let go of tables that nobody wants."""
    for parcel in parcels:
        if isinstance(parcel, str):
            os.unlink(parcel)


def _write(table: pa.Table, sink: pa.NativeFile) -> None:
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)


def open_directory(path: Path) -> str:
    """A directory for parcels, without what was left in it."""
    path.mkdir(parents=True, exist_ok=True)
    for left in path.iterdir():
        left.unlink(missing_ok=True)
    return str(path)
