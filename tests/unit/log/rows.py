"""Rows for the tests of the log, and what is read back as plain values."""

from collections.abc import Sequence

import pyarrow as pa

from millstream.log import Topic


def numbered(*values: int) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(values, type=pa.int64())})


def keyed(rows: Sequence[tuple[int | None, str]]) -> pa.RecordBatch:
    return pa.record_batch(
        {"id": pa.array([id_ for id_, _ in rows], type=pa.int64()), "value": [value for _, value in rows]}
    )


def read_all(topic: Topic, partition: int = 0, column: str = "n") -> list[object]:
    start = topic.start_offsets()[partition]
    return [value for batch in topic.read(partition, start) for value in batch.column(column).to_pylist()]


def read_offsets(topic: Topic, partition: int = 0) -> list[int]:
    return [int(offset) for offset in read_all(topic, partition, "_offset")]  # type: ignore[call-overload]
