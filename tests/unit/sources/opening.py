"""What an opener is given, without an engine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from millstream.log import Log
from millstream.model.time import ManualClock
from millstream.plan.nodes import Stream
from millstream.sources import SOURCES, Offsets, Opening, Source, StreamOptions
from millstream.sql import parse_statement
from millstream.sql.statements import CreateStream


def opening_of(
    directory: Path,
    columns: str = "id BIGINT, name STRING",
    *,
    clock: ManualClock | None = None,
    files: Sequence[str] = (),
    reached: Offsets | None = None,
) -> Opening:
    """An opening of a stream `s`; its log is the caller's to close."""
    clock = clock or ManualClock(0)
    create = parse_statement(f"CREATE STREAM s ({columns})")
    assert isinstance(create, CreateStream)
    stream = Stream("s", create.schema, create.watermark, None)
    return Opening(stream, Log(directory / "log", clock), clock, lambda: files, lambda: reached)


def opened(opening: Opening, **options: str) -> tuple[Source, StreamOptions]:
    connector = SOURCES[options.get("source", "log")]
    read = connector.options.read(options)
    source = connector.open(read, opening)
    source.begin()
    return source, read
