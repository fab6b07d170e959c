"""Which partition a key belongs to.

Owns a hash of key columns that is the same in every process, on every platform and in every
version: changing it would send a key's new rows to another partition than its old ones.

Always: equal values hash alike whatever the width of their type (`INT` 5 and `BIGINT` 5, `string`
and `large_string`), and NULL is a key like any other. Whole columns are hashed at a time; only
strings longer than `_LONG` bytes are visited one by one.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millstream.model.errors import MillstreamError

Hashes = npt.NDArray[np.uint64]

_LONG = 256
_SEED = np.uint64(0x9E3779B97F4A7C15)
_STEP = np.uint64(0xD6E8FEB86659FD93)
_NULL = np.uint64(0x7FB5D329728EA185)


def partition_numbers(batch: pa.RecordBatch, keys: Sequence[str], partitions: int) -> npt.NDArray[np.int64]:
    """The partition of every row by the hash of its key columns."""
    combined = np.full(batch.num_rows, _SEED, dtype=np.uint64)
    for key in keys:
        if batch.schema.get_field_index(key) < 0:
            raise MillstreamError(
                "UNKNOWN_KEY",
                f"the rows have no column {key!r} to partition by",
                detail="columns: " + ", ".join(batch.schema.names),
            )
        combined = _mix(combined * _STEP + _hash_column(batch.column(key), key))
    return (combined % np.uint64(partitions)).astype(np.int64)


def _mix(values: Hashes) -> Hashes:
    """The finaliser of splitmix64: every input bit reaches every output bit."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _hash_column(column: pa.Array, name: str) -> Hashes:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_null(column.type):
        return np.full(len(column), _NULL, dtype=np.uint64)
    if pa.types.is_struct(column.type):
        hashes = np.full(len(column), _SEED, dtype=np.uint64)
        for number, field in enumerate(column.flatten()):
            hashes = _mix(hashes * _STEP + _hash_column(field, f"{name}.{column.type[number].name}"))
    else:
        hashes = _hash_values(column, name)
    if column.null_count:
        hashes[column.is_null().to_numpy(zero_copy_only=False)] = _NULL
    return hashes


def _hash_values(column: pa.Array, name: str) -> Hashes:
    """Hashes of a column; those of NULLs are arbitrary."""
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _hash_bytes(column.cast(pa.large_binary()))
    if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        return _hash_bytes(column.cast(pa.large_binary()))
    if pa.types.is_floating(kind):
        floats = column.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False) + 0.0  # -0.0 is 0.0
        floats[np.isnan(floats)] = np.nan
        return _mix(floats.view(np.uint64))
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("us", kind.tz), safe=False).cast(pa.int64())
    elif pa.types.is_temporal(kind):
        column = column.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
    if pa.types.is_uint64(kind):
        return _mix(column.fill_null(0).to_numpy(zero_copy_only=False).copy())
    if pa.types.is_boolean(kind) or pa.types.is_integer(column.type):
        integers = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        return _mix(integers.view(np.uint64).copy())
    try:
        text = column.cast(pa.string())
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        raise MillstreamError(
            "BAD_KEY_TYPE",
            f"rows cannot be partitioned by {name!r} of type {kind}",
            hint="choose a column of a plain type as the key",
        ) from None
    return _hash_bytes(text.cast(pa.large_binary()))


def _hash_bytes(column: pa.Array) -> Hashes:
    """Hash variable-length values eight bytes at a time, all rows of a lane at once."""
    _, offsets_buffer, data_buffer = column.buffers()
    bounds = np.frombuffer(offsets_buffer, dtype="<i8")[column.offset : column.offset + len(column) + 1]
    low, high = (int(bounds[0]), int(bounds[-1])) if len(column) else (0, 0)
    # Eight spare bytes let the last word of the last value be read whole and then masked.
    data = np.zeros(high - low + 8, dtype=np.uint8)
    if high > low:
        data[:-8] = np.frombuffer(data_buffer, dtype=np.uint8)[low:high]
    words = np.ndarray(shape=(len(data) - 7,), dtype="<u8", buffer=data.data, strides=(1,))
    starts = bounds[:-1] - low
    lengths = np.diff(bounds)
    hashes = _mix(lengths.astype(np.uint64) + _SEED)

    active = np.flatnonzero((lengths > 0) & (lengths <= _LONG))
    lane = 0
    while len(active):
        word = words[starts[active] + lane].astype(np.uint64)
        left = lengths[active] - lane
        short = left < 8
        if short.any():
            mask = (np.uint64(1) << (left[short].astype(np.uint64) * np.uint64(8))) - np.uint64(1)
            word[short] &= mask
        hashes[active] = _mix(hashes[active] * _STEP + word)
        active = active[left > 8]
        lane += 8

    for row in np.flatnonzero(lengths > _LONG):
        value = data[starts[row] : starts[row] + lengths[row]].data
        digest = zlib.crc32(value) << 32 | zlib.adler32(value)
        hashes[row] = _mix(hashes[row : row + 1] * _STEP + np.uint64(digest))[0]
    return hashes
