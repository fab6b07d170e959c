"""Tables with the real parts: changes from every source, deletions that are durable, compaction, continuous running."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import millstream as ms
from tests.parts import parts_of, store_of

pytestmark = pytest.mark.spark

Connect = Callable[..., ms.Database]
Row = dict[str, Any]
COLUMNS = "id BIGINT PRIMARY KEY, name STRING, op STRING"
DAY = 86_400


def contents(db: ms.Database, table: str = "t") -> dict[int, str | None]:
    return {row["id"]: row["name"] for row in db.query(f"SELECT id, name FROM {table}").rows()}


def changes(*steps: tuple[int, str | None]) -> list[Row]:
    """(key, name), a deletion where the name is None."""
    return [{"id": key, "name": name, "op": "d" if name is None else "u"} for key, name in steps]


def counts(db: ms.Database, table: str = "t") -> dict[str, int]:
    found: dict[str, int] = json.loads(db.sql("SHOW EPOCHS").rows()[-1]["streams"])[table]  # type: ignore[union-attr]
    return found


# -- sources -----------------------------------------------------------------------------------------

FILE_STEPS = (
    # In each file the last line of a key counts, and the second file comes after the first, however large it is.
    changes((1, "a"), (2, "a"), (1, None), (3, "z"), (3, "b"), (2, "b")),
    changes((1, "c"), (2, None), *((100 + n, "x") for n in range(2_000))),
)


def write(path: Path, rows: Sequence[Row], format_: str, modified_at: int) -> None:
    if format_ == "parquet":
        pq.write_table(pa.Table.from_pylist(list(rows)), path)
    elif format_ == "csv":
        path.write_text("".join(f"{r['id']},{r['name'] or ''},{r['op']}\n" for r in rows))
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    os.utime(path, (modified_at, modified_at))


@pytest.mark.parametrize("format_", ["json", "csv", "parquet"])
def test_change_records_in_files_are_applied_in_the_order_of_lines(
    connect: Connect, tmp_path: Path, format_: str
) -> None:
    incoming = tmp_path / "in"
    incoming.mkdir()
    write(incoming / "b it's 100%.x", FILE_STEPS[0], format_, 1_000)
    write(incoming / "a.x", FILE_STEPS[1], format_, 2_000)
    db = connect()
    db.sql(
        f"CREATE TABLE t ({COLUMNS}) "
        f"WITH (source = 'files', path = '{incoming}', format = '{format_}', operation = 'op')"
    )
    db.drain()
    assert {key: name for key, name in contents(db).items() if key < 100} == {1: "c", 3: "b"}
    assert len(contents(db)) == 2_002
    assert counts(db)["used"] == 2_008
    write(
        incoming / "c.x", [*changes((3, None), (4, "d"), (5, None)), {"id": 6, "name": "e", "op": "?"}], format_, 3_000
    )
    db.close()
    db = connect()
    db.drain()
    assert {key: name for key, name in contents(db).items() if key < 100} == {1: "c", 4: "d"}
    (dead,) = db.query("SELECT _offset, reason FROM t__dead").rows()
    assert dead == {"_offset": 2, "reason": "unknown operation op: ?"}
    with pytest.raises(ms.MillstreamError) as caught:
        db.delete("t", [{"id": 1}])
    assert caught.value.code == "NOT_INSERTABLE"


def test_change_records_of_a_socket(connect: Connect) -> None:
    db = connect()
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    db.sql(
        f"CREATE TABLE t ({COLUMNS}, seq BIGINT) "
        f"WITH (source = 'socket', listen = 'true', port = '{port}', operation = 'op', sequence = 'seq')"
    )
    sent = [
        {**change, "seq": seq}
        for change, seq in zip(changes((1, "a"), (1, None), (1, "b"), (2, "c")), (1, 3, 2, 1), strict=True)
    ]
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall("".join(json.dumps(row) + "\n" for row in sent).encode())
    end = time.monotonic() + 60
    while sum(parts_of(db).log.topic("t").end_offsets().values()) < 4:
        assert time.monotonic() < end
        time.sleep(0.02)
    db.drain()
    assert contents(db) == {2: "c"}
    # What lands in the log can also be deleted.
    db.sql("DELETE FROM t WHERE name = 'c'")
    db.drain()
    assert contents(db) == {}


def test_change_records_through_structured_streaming(connect: Connect, tmp_path: Path) -> None:
    incoming = tmp_path / "in"
    incoming.mkdir()
    db = connect()
    db.sql(
        f"CREATE TABLE t ({COLUMNS}) WITH (source = 'spark', format = 'json', path = '{incoming}', operation = 'op')"
    )
    write(incoming / "1.json", changes((1, "a"), (2, "b"), (1, None), (3, "c"), (3, "d")), "json", 1_000)
    db.drain()
    assert contents(db) == {2: "b", 3: "d"}
    write(incoming / "2.json", changes((2, None), (1, "e")), "json", 2_000)
    db.close()
    db = connect()
    db.drain()
    assert contents(db) == {1: "e", 3: "d"}


def test_generated_rows_are_upserts(connect: Connect) -> None:
    db = connect()
    db.sql(
        "CREATE TABLE t (id BIGINT PRIMARY KEY, name BIGINT) WITH (source = 'datagen', rows = 1000, "
        "'fields.id.cardinality' = 7, 'fields.name.kind' = 'sequence')"
    )
    db.drain()
    assert len(contents(db)) == 7
    assert max(int(name) for name in contents(db).values() if name is not None) == 999
    before = contents(db)
    db.close()
    db = connect()
    db.drain()
    assert contents(db) == before


# -- the log -----------------------------------------------------------------------------------------


def test_tombstones_are_durable_and_read_by_executors_too(connect: Connect) -> None:
    """More rows than travel with the job, so executors read the frames; and nothing is processed before a restart."""
    db = connect()
    db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, name STRING) WITH (partitions = 2)")
    many = pa.table({"id": pa.array(range(25_000)), "name": pa.repeat("x", 25_000)})
    assert db.insert("t", many) == 25_000
    assert db.delete("t", many.slice(0, 24_990).select(["id"])) == 24_990
    assert db.insert("t", [{"id": 5, "name": "back"}]) == 1
    db.close()
    db = connect()
    db.drain()
    assert contents(db) == {5: "back", **dict.fromkeys(range(24_990, 25_000), "x")}
    assert counts(db) == {"in": 49_991, "decoded": 49_991, "dead": 0, "used": 49_991, "filtered": 0}


def test_a_retry_of_a_deletion_deletes_once(connect: Connect) -> None:
    db = connect()
    db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, name STRING)")
    db.insert("t", [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}])
    assert db.delete("t", [{"id": 1}], message_ids=["m"]) == 1
    db.insert("t", [{"id": 1, "name": "again"}])
    db.close()
    db = connect()
    assert db.delete("t", [{"id": 1}, {"id": 2}], message_ids=["m", "n"]) == 1
    db.drain()
    assert contents(db) == {1: "again"}


def test_a_stream_over_the_topic_of_a_table_sets_deletions_aside(connect: Connect) -> None:
    db = connect()
    db.sql(
        "CREATE TABLE t (id BIGINT PRIMARY KEY, name STRING);"
        "CREATE STREAM s (id BIGINT, name STRING) WITH (topic = 't');"
        "CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM s"
    )
    db.insert("t", [{"id": 1, "name": "a"}])
    db.delete("t", [{"id": 1}])
    db.drain()
    assert contents(db) == {}
    assert db.query("SELECT n FROM v").rows() == [{"n": 1}]
    (dead,) = db.query("SELECT id, reason FROM s__dead").rows()
    assert dead == {"id": 1, "reason": "a deletion of a key: only a table can take it"}
    # The stream was opened last and has no key: compaction is not the topic's to do any more.
    db.maintain()
    assert sum(parts_of(db).log.topic("t").end_offsets().values()) == 2


def rows_left(db: ms.Database, topic: str) -> int:
    found = parts_of(db).log.topic(topic)
    starts = found.start_offsets()
    return sum(batch.num_rows for p, start in starts.items() for batch in found.read(p, start))


def test_compaction_keeps_winners_and_forgets_tombstones_in_the_end(connect: Connect) -> None:
    clock = ms.ManualClock(0)
    db = connect(clock=clock)
    options = "topic = 't', sequence = 'seq', tombstone_retain = '3 days'"
    create = f"CREATE TABLE {{}} (id BIGINT PRIMARY KEY, name STRING, seq BIGINT) WITH ({options})"
    db.sql(create.format("t"))
    db.insert(
        "t", [{"id": 1, "name": "new", "seq": 9}, {"id": 2, "name": "a", "seq": 1}, {"id": 1, "name": "old", "seq": 2}]
    )
    db.delete("t", [{"id": 2, "seq": 5}, {"id": 3, "seq": 1}])
    clock.advance(2 * DAY)
    db.maintain()
    assert rows_left(db, "t") == 5, "what was not read is not compacted"
    db.drain()
    db.maintain()
    assert rows_left(db, "t") == 3
    db.sql(create.format("again"))
    db.insert("t", [{"id": 2, "name": "stale", "seq": 4}])
    db.drain()
    assert contents(db) == contents(db, "again") == {1: "new"}
    clock.advance(2 * DAY)
    db.insert("t", [{"id": 4, "name": "d", "seq": 1}])
    db.drain()
    db.maintain()
    assert rows_left(db, "t") == 2, "the tombstones of 2 and 3 are gone, and what they won over too"
    assert contents(db) == contents(db, "again") == {1: "new", 4: "d"}


def test_tables_that_need_other_rows_of_a_topic_are_not_compacted(connect: Connect) -> None:
    clock = ms.ManualClock(0)
    db = connect(clock=clock)
    columns = "(id BIGINT PRIMARY KEY, name STRING, seq BIGINT) WITH (topic = 't'"
    db.sql(f"CREATE TABLE a {columns}); CREATE TABLE b {columns}, sequence = 'seq')")
    db.insert("a", [{"id": 1, "name": "x", "seq": 2}, {"id": 1, "name": "y", "seq": 1}])
    db.drain()
    clock.advance(2 * DAY)
    db.maintain()
    assert rows_left(db, "t") == 2
    assert (contents(db, "a"), contents(db, "b")) == ({1: "y"}, {1: "x"})


# -- running -----------------------------------------------------------------------------------------


def test_deletions_while_running(connect: Connect) -> None:
    db = connect()
    db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, name STRING)")
    db.start()
    db.insert("t", [{"id": n, "name": "a"} for n in range(100)])
    end = time.monotonic() + 60
    while len(contents(db)) < 100:
        assert time.monotonic() < end
        time.sleep(0.02)
    db.sql("DELETE FROM t WHERE id % 2 = 0")
    while len(contents(db)) > 50:
        assert time.monotonic() < end
        time.sleep(0.02)
    db.stop()
    assert sorted(contents(db)) == list(range(1, 100, 2))


def test_nothing_of_a_table_is_left_when_it_is_dropped(connect: Connect) -> None:
    db = connect()
    db.sql(
        "CREATE TABLE t (id BIGINT PRIMARY KEY, name STRING, ts TIMESTAMP, WATERMARK FOR TS AS ts) "
        "WITH (versioned = 'true', sequence = 'NAME')"
    )
    db.insert("t", [{"id": 1, "name": "a", "ts": 1}])
    db.drain()
    db.sql("DROP TABLE t")
    left = store_of(db).query("SELECT table_name FROM duckdb_tables() WHERE table_name LIKE 't.%'")
    assert left.num_rows == 0
    db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, name STRING)")
    db.insert("t", [{"id": 2, "name": "b"}])
    db.drain()
    assert contents(db) == {2: "b"}
