"""How values are spelt: the forms of text that Arrow reads as `kernel/values.py` does.

Owns the characters and lengths that are allowed. Arrow's casts refuse what they cannot read; what they
forgive and the rule does not is found here, over all values of a column at once.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

UTC_TIMESTAMP = pa.timestamp("us", "UTC")

DATE = b"-0123456789"
_INSTANT = b"-.0123456789: TZ"
_ZULU = ord("Z")
# A day; a day and hh:mm:ss; the same with one to six digits of a second. NULL has no length.
_INSTANT_LENGTHS = frozenset({0, 10, 19, *range(21, 27)})
_ZULU_LENGTHS = frozenset({0, 20, *range(22, 28)})


def joined(column: pa.ChunkedArray) -> pa.Array:
    """The values of a column in one array, without a copy if they are already."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def other_character(column: pa.StringArray, characters: bytes) -> str | None:
    """A character of the values that is none of those allowed, if there is one."""
    return _other(_text(column), characters)


def instants(column: pa.StringArray) -> pa.Array | None:
    """Days and instants in their canonical form; either all of them say that they are in UTC, or none does.

    None if one is in another form. Arrow's error if one is no instant.
    """
    text = _text(column)
    if _other(text, _INSTANT) is not None:
        return None
    # Many times sooner than bytes are counted.
    zoned = int(np.count_nonzero(np.frombuffer(text, np.uint8) == _ZULU))
    lengths = np.flatnonzero(np.bincount(np.diff(_offsets(column))))
    allowed = _ZULU_LENGTHS if zoned else _INSTANT_LENGTHS
    if zoned not in (0, len(column) - column.null_count) or not allowed.issuperset(lengths):
        return None
    # Arrow asks for a zone in every value of a zoned column, and for none in the others.
    return column.cast(UTC_TIMESTAMP if zoned else pa.timestamp("us")).cast(UTC_TIMESTAMP)


def _other(text: bytes, characters: bytes) -> str | None:
    rest = text.translate(None, characters)
    return chr(rest[0]) if rest else None


def _text(column: pa.StringArray) -> bytes:
    """All values of a column, one after the other."""
    offsets = _offsets(column)
    start, end = int(offsets[0]), int(offsets[-1])
    data: bytes = column.buffers()[2].slice(start, end - start).to_pybytes()
    return data


def _offsets(column: pa.StringArray) -> np.ndarray:
    return np.frombuffer(column.buffers()[1], np.int32, len(column) + 1, column.offset * 4)
