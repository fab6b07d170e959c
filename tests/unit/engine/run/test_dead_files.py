"""Files that cannot be read are set aside, and everything else is read, without a JVM."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import millstream as ms
from millstream.engine.surface.database import Database
from tests.inprocess_compute import InProcessCompute
from tests.parts import parts_of


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    directory = tmp_path / "in"
    directory.mkdir()
    return directory


@pytest.fixture
def files(db: Database, inbox: Path) -> Database:
    db.sql(
        f"CREATE STREAM f (k BIGINT) WITH (source = 'files', path = '{inbox}', format = 'parquet'); "
        "CREATE MATERIALIZED VIEW v AS SELECT k FROM f; CREATE MATERIALIZED VIEW c AS SELECT count(*) AS n FROM f; "
        "CREATE STREAM s (k BIGINT); CREATE MATERIALIZED VIEW other AS SELECT k FROM s"
    )
    return db


def write(inbox: Path, number: int, keys: list[int] | None) -> Path:
    """The n-th file: rows, or something that is not Parquet."""
    path = inbox / f"{number}.parquet"
    if keys is None:
        path.write_text("not parquet")
    else:
        pq.write_table(pa.table({"k": pa.array(keys, pa.int64())}), path)
    os.utime(path, (number, number))
    return path


def keys(db: Database, view: str = "v") -> list[int]:
    return [row["k"] for row in db.query(f"SELECT k FROM {view} ORDER BY k").rows()]


def dead(db: Database) -> list[tuple[str, int]]:
    return [(row["raw"], row["_offset"]) for row in db.query("SELECT * FROM f__dead ORDER BY _offset").rows()]


def check_accounting(db: Database) -> None:
    for epoch in db.epochs().rows():
        streams, views = json.loads(epoch["streams"]), json.loads(epoch["views"])
        for name, counts in streams.items():
            assert counts["in"] == counts["decoded"] + counts["dead"], name
        for view in ("v", "c"):
            if "f" in streams and view in views:
                assert sum(views[view].values()) == streams["f"]["decoded"]


def test_one_file_of_many_is_set_aside(files: Database, inbox: Path, compute: InProcessCompute) -> None:
    for number in range(7):
        write(inbox, number, None if number in (2, 5) else [number])
    files.insert("s", [{"k": 1}])
    files.drain()
    assert (keys(files), keys(files, "other")) == ([0, 1, 3, 4, 6], [1])
    assert files.query("SELECT n FROM c").rows() == [{"n": 5}]
    assert dead(files) == [(str(inbox / "2.parquet"), 2), (str(inbox / "5.parquet"), 5)]
    reason = files.query("SELECT DISTINCT reason FROM f__dead").rows()[0]["reason"]
    assert reason.startswith("the file cannot be read: ")
    assert (files.status()["rows_in"], files.status()["rows_dead"]) == (8, 2)
    assert {each["state"] for each in files.status()["streams"]} == {"live"}
    check_accounting(files)
    assert compute.open == 0


def test_a_file_is_set_aside_once(files: Database, inbox: Path) -> None:
    write(inbox, 0, None)
    files.drain()
    before = parts_of(files).store.last_epoch()
    write(inbox, 0, [7])
    files.drain()
    assert (parts_of(files).store.last_epoch(), keys(files), len(dead(files))) == (before, [], 1)


def test_a_file_that_vanished_is_set_aside(files: Database, inbox: Path) -> None:
    for number in range(4):
        write(inbox, number, [number])
    parts_of(files).catalog.stream("f").source.end()
    for number in (0, 2):
        (inbox / f"{number}.parquet").unlink()
    files.drain()
    assert (keys(files), [offset for _, offset in dead(files)]) == ([1, 3], [0, 2])
    assert "was removed before it was read" in files.query("SELECT reason FROM f__dead").rows()[0]["reason"]
    check_accounting(files)


def test_files_whose_directory_is_gone_wait_for_it(files: Database, inbox: Path) -> None:
    write(inbox, 0, [1])
    parts_of(files).catalog.stream("f").source.end()
    away = inbox.rename(inbox.with_name("unmounted"))
    files.insert("s", [{"k": 1}])
    with pytest.raises(ms.MillstreamError) as caught:
        files.drain()
    assert caught.value.code == "SOURCE_UNREADABLE"
    assert (dead(files), keys(files, "other")) == ([], [1])
    away.rename(inbox)
    files.drain()
    assert (keys(files), dead(files)) == ([1], [])


def test_history_leaves_out_what_was_set_aside_and_misses_nothing_else(files: Database, inbox: Path) -> None:
    for number in range(4):
        write(inbox, number, None if number == 1 else [number])
    files.drain()
    files.sql("CREATE MATERIALIZED VIEW late AS SELECT k FROM f")
    files.drain()
    assert (keys(files, "late"), len(dead(files))) == ([0, 2, 3], 1)
    gone = (inbox / "2.parquet").rename(inbox / ".2.parquet")
    files.sql("CREATE MATERIALIZED VIEW later AS SELECT k FROM f; CREATE MATERIALIZED VIEW w AS SELECT k FROM s")
    files.insert("s", [{"k": 1}])
    with pytest.raises(ms.MillstreamError) as caught:
        files.drain()
    assert (caught.value.code, keys(files, "later"), keys(files, "w")) == ("FILE_GONE", [0], [1])
    gone.rename(inbox / "2.parquet")
    files.drain()
    assert (keys(files, "later"), len(dead(files))) == ([0, 2, 3], 1)
    check_accounting(files)


def test_a_table_of_files(db: Database, inbox: Path) -> None:
    db.sql(f"CREATE TABLE t (k BIGINT PRIMARY KEY) WITH (source = 'files', path = '{inbox}', format = 'parquet')")
    for number in range(3):
        write(inbox, number, None if number == 1 else [number])
    db.drain()
    assert keys(db, "t") == [0, 2]
    assert db.query("SELECT raw FROM t__dead").rows() == [{"raw": str(inbox / "1.parquet")}]
