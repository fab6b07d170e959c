"""A disk that runs full: a clear error, nothing acknowledged lost, nothing corrupt."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

import millstream as ms

pytestmark = pytest.mark.spark

SIZE = 24 * 2**20
START = datetime(2024, 3, 1)

STATEMENTS = """
CREATE STREAM s (id BIGINT, text STRING, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS);
CREATE MATERIALIZED VIEW ids AS SELECT id FROM s;
CREATE MATERIALIZED VIEW counts AS SELECT window_start, count(*) AS n FROM TUMBLE(s, ts, INTERVAL 10 SECONDS)
GROUP BY window_start;
"""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of a few megabytes."""
    libc = ctypes.CDLL(None, use_errno=True)
    point = tmp_path / "small"
    point.mkdir()
    options = f"size={SIZE}".encode()
    if not hasattr(libc, "umount2") or libc.mount(b"tmpfs", bytes(point), b"tmpfs", 0, options) != 0:
        pytest.skip(f"cannot mount a small file system: {os.strerror(ctypes.get_errno())}")
    try:
        yield point
    finally:
        libc.umount2(bytes(point), 2)


def rows(first: int, count: int, width: int = 10) -> list[dict[str, object]]:
    # Random text: a compressed log must not make room where there is none.
    return [
        {"id": first + n, "text": os.urandom(width // 2).hex(), "ts": START + timedelta(milliseconds=first + n)}
        for n in range(count)
    ]


def fill(disk: Path, leave: int) -> Path:
    """Take all the room but a little."""
    ballast = disk / "ballast"
    free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
    with ballast.open("wb") as file:
        file.write(bytes(max(0, free - leave)))
    return ballast


def check_everything(directory: Path, acknowledged: set[int]) -> None:
    with ms.connect(directory) as db:
        db.drain()
        ids = [row["id"] for row in db.query("SELECT id FROM ids").rows()]
        assert len(ids) == len(set(ids))
        assert set(ids) == acknowledged
        assert sum(row["n"] for row in db.query("SELECT n FROM counts").rows()) == len(acknowledged)
        epochs = [row["epoch"] for row in db.sql("SHOW EPOCHS").rows()]  # type: ignore[union-attr]
        assert epochs == list(range(1, len(epochs) + 1))
        # And it goes on.
        db.insert("s", rows(10_000_000, 5))
        db.drain()
        assert len(db.query("SELECT id FROM ids")) == len(acknowledged) + 5


def test_the_log_on_a_full_disk(small_disk: Path) -> None:
    directory = small_disk / "data"
    acknowledged: set[int] = set()
    with ms.connect(directory) as db:
        db.sql(STATEMENTS)
        with pytest.raises(ms.MillstreamError) as caught:
            insert_until_full(db, acknowledged)
        assert caught.value.code == "DISK_FULL"
        assert caught.value.hint
        assert acknowledged
        # Still full: still refused, in the same words.
        with pytest.raises(ms.MillstreamError, match="DISK_FULL"):
            db.insert("s", rows(1_000_000, 100, width=10_000))
    remount(small_disk, 4 * SIZE)
    check_everything(directory, acknowledged)


def test_the_store_on_a_full_disk(small_disk: Path) -> None:
    directory = small_disk / "data"
    acknowledged: set[int] = set()
    db = ms.connect(directory)
    try:
        db.sql(STATEMENTS)
        first = rows(0, 50)
        db.insert("s", first)
        db.drain()
        acknowledged |= {row["id"] for row in first}  # type: ignore[misc]
        many = rows(100, 9_000)
        db.insert("s", many)
        acknowledged |= {row["id"] for row in many}  # type: ignore[misc]
        ballast = fill(small_disk, leave=8_192)
        with pytest.raises(ms.MillstreamError) as caught:
            db.drain()
        assert caught.value.code == "DISK_FULL"
        assert caught.value.hint
    finally:
        db.close()
    ballast.unlink()
    check_everything(directory, acknowledged)


def test_a_database_goes_on_once_there_is_room_again(small_disk: Path) -> None:
    with ms.connect(small_disk / "data") as db:
        db.sql(STATEMENTS)
        db.insert("s", rows(0, 10))
        ballast = fill(small_disk, leave=8_192)
        with pytest.raises(ms.MillstreamError, match="DISK_FULL"):
            db.insert("s", rows(100, 100, width=10_000))
        ballast.unlink()
        db.insert("s", rows(200, 100, width=10_000))
        db.drain()
        assert len(db.query("SELECT id FROM ids")) == 110


def test_a_database_is_not_created_on_a_full_disk(small_disk: Path) -> None:
    ballast = fill(small_disk, leave=4_096)
    with pytest.raises(ms.MillstreamError) as caught:
        ms.connect(small_disk / "data")
    assert caught.value.code == "DISK_FULL"
    ballast.unlink()
    ms.connect(small_disk / "data").close()


def insert_until_full(db: ms.Database, acknowledged: set[int]) -> None:
    for number in range(100):
        batch = rows(number * 100, 100, width=10_000)
        db.insert("s", batch)
        acknowledged |= {row["id"] for row in batch}  # type: ignore[misc]


def remount(disk: Path, size: int) -> None:
    """Make the file system larger."""
    remount_flag = 32
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mount(b"tmpfs", bytes(disk), b"tmpfs", remount_flag, f"size={size}".encode()) == 0
