import pickle
from pathlib import Path

import pyarrow as pa
import pytest

from millstream.log import read_frame, read_frames, slice_offsets
from millstream.log.frames import LANDED_AT, OFFSET, encode, unpack_header
from millstream.model.errors import MillstreamError

BATCH = pa.record_batch(
    {
        "id": pa.array([1, None, 3], type=pa.int32()),
        "name": ["a", None, "ccc"],
        "at": pa.array([1, 2, None], type=pa.timestamp("us")),
        "tags": [["x"], [], None],
        "place": [{"x": 1.5}, None, {"x": None}],
    }
)
RAW = pa.record_batch({"_raw": pa.array([b'{"a": 1}', b"\xff\x00", b""], type=pa.binary())})


def write(path: Path, *batches: pa.RecordBatch, compression: str | None = None) -> list[tuple[int, int]]:
    places = []
    with path.open("wb") as file:
        offset = 100
        for batch in batches:
            body = encode(batch, compression=compression)
            places.append((file.tell(), body.length))
            file.write(body.header(offset, offset + batch.num_rows, 7_000, 0).pack())
            file.write(body.payload)
            offset += batch.num_rows
    return places


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_a_frame_comes_back_with_offsets_and_landing_time(tmp_path: Path, compression: str | None) -> None:
    path = tmp_path / "segment"
    (first, second) = write(path, BATCH, RAW, compression=compression)

    batch = read_frame(str(path), *first)
    assert batch.select(BATCH.schema.names) == BATCH
    assert batch.column(OFFSET).to_pylist() == [100, 101, 102]
    assert batch.column(LANDED_AT).to_pylist() == [7_000] * 3
    assert batch.schema.field(OFFSET).type == batch.schema.field(LANDED_AT).type == pa.int64()

    raw = read_frame(path, *second)
    assert raw.schema.names == ["_raw", OFFSET, LANDED_AT]
    assert raw.column("_raw") == RAW.column("_raw")


def test_adjacent_frames_are_read_at_once(tmp_path: Path) -> None:
    path = tmp_path / "segment"
    places = write(path, BATCH, RAW, BATCH)
    batches = read_frames(path, 0, sum(length for _, length in places))
    assert [batch.column(OFFSET)[0].as_py() for batch in batches] == [100, 103, 106]


def test_a_sparse_frame_carries_its_own_offsets(tmp_path: Path) -> None:
    rows = pa.record_batch({"n": [1, 2], OFFSET: [5, 90], LANDED_AT: [1, 2]})
    body = encode(rows, sparse=True)
    path = tmp_path / "segment"
    path.write_bytes(body.header(0, 100, 2, 0).pack() + bytes(body.payload))
    assert read_frame(path, 0, body.length) == rows
    assert slice_offsets(rows, 6, 100).column("n").to_pylist() == [2]
    assert slice_offsets(rows, 6, 90).num_rows == 0


def test_every_flipped_byte_is_noticed_and_named(tmp_path: Path) -> None:
    path = tmp_path / "segment"
    places = write(path, RAW, RAW)
    position, length = places[1]
    intact = path.read_bytes()
    for at in range(position, position + length):
        damaged = bytearray(intact)
        damaged[at] ^= 0x10
        path.write_bytes(damaged)
        with pytest.raises(MillstreamError) as caught:
            read_frame(path, position, length)
        assert caught.value.code == "LOG_CORRUPT"
        assert f"{path} at byte {position}" in caught.value.message


def test_a_removed_file_asks_for_a_new_plan(tmp_path: Path) -> None:
    with pytest.raises(MillstreamError) as caught:
        read_frame(tmp_path / "gone", 0, 100)
    assert caught.value.code == "FRAME_GONE"


def test_a_header_survives_packing_and_a_body_pickling() -> None:
    body = encode(BATCH)
    header = body.header(3, 6, 99, 2)
    assert unpack_header(header.pack()) == header
    assert pickle.loads(pickle.dumps(header)) == header
    assert unpack_header(header.pack()[:-1]) is None
