"""Reading where streams begin, as `millstream run --from` writes it."""

from __future__ import annotations

import re
from collections.abc import Iterable

from millstream.api import Starts
from millstream.model.errors import MillstreamError
from millstream.sources import read_start

# An instant begins with a digit, a stream does not.
_OF_STREAM = re.compile(r"([^\W\d]\w*)\s*:\s*(.+)", re.DOTALL)


def read_starts(values: Iterable[str]) -> Starts:
    """`latest`, `2024-01-01 00:00:00`, `bids:0=100,1=250`; each may be given once."""
    everywhere: str | None = None
    streams: dict[str, str] = {}
    for value in values:
        named = _OF_STREAM.fullmatch(value.strip())
        text = named.group(2).strip() if named else value.strip()
        try:
            start = read_start(text)
        except ValueError as error:
            raise MillstreamError("BAD_START", f"--from {value!r} is no place to begin", hint=str(error)) from None
        if named is None and start.offsets is not None:
            raise MillstreamError(
                "BAD_START", f"--from {value!r} names no stream", hint=f"write --from 'stream:{value.strip()}'"
            )
        key = named.group(1).lower() if named else None
        if (key in streams) if key is not None else (everywhere is not None):
            raise MillstreamError("BAD_START", f"--from is given twice for {key or 'all streams'}")
        if key is None:
            everywhere = text
        else:
            streams[key] = text
    return Starts(everywhere, streams)
