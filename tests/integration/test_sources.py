"""Sources: what they deliver, once, across epochs and restarts; and continuous running."""

from __future__ import annotations

import gc
import json
import socket
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import millstream as ms
from tests.parts import parts_of

pytestmark = pytest.mark.spark

Connect = Callable[..., ms.Database]
Row = dict[str, Any]
START = datetime(2024, 3, 1)
COLUMNS = "id BIGINT, k STRING, v BIGINT, ts TIMESTAMP"
STREAM = f"CREATE STREAM s ({COLUMNS}, WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS)"
IDS = "CREATE MATERIALIZED VIEW ids AS SELECT id FROM s"
COUNTS = (
    "CREATE MATERIALIZED VIEW counts AS SELECT window_start, k, count(*) AS n, sum(v) AS sv "
    "FROM TUMBLE(s, ts, INTERVAL 10 SECONDS) GROUP BY window_start, k"
)


def rows(first: int, count: int) -> list[Row]:
    return [
        {"id": n, "k": f"k{n % 5}", "v": n % 13 - 6, "ts": START + timedelta(milliseconds=10 * n)}
        for n in range(first, first + count)
    ]


def ids(db: ms.Database, view: str = "ids") -> list[Any]:
    return sorted(row["id"] for row in db.query(f"SELECT id FROM {view}").rows())


def everything(db: ms.Database, view: str) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in db.query(f"SELECT * FROM {view}").rows())


def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


# -- log -------------------------------------------------------------------------------------------


def test_many_rows_through_executors_give_what_few_through_the_driver_give(connect: Connect) -> None:
    total = 30_000
    data = rows(0, total)
    big, small = connect("big"), connect("small")
    for db in (big, small):
        db.sql(f"{STREAM} WITH (partitions = 3, key = 'k'); {IDS}; {COUNTS}")
    for low in range(0, total, 7_000):
        big.insert("s", data[low : low + 7_000])
        small.insert("s", data[low : low + 7_000])
        small.drain()
    assert big.drain() == 1, "everything that is there is one epoch"
    assert ids(big) == ids(small) == list(range(total))
    assert everything(big, "counts") == everything(small, "counts")
    (epoch,) = big.sql("SHOW EPOCHS").rows()  # type: ignore[union-attr]
    assert epoch["rows_in"] == total


def test_typed_rows_and_lines_in_one_large_epoch(connect: Connect) -> None:
    db = connect()
    db.sql(f"{STREAM} WITH (partitions = 2); {IDS}")
    db.insert("s", rows(0, 15_000))
    lines = [json.dumps({**row, "ts": row["ts"].isoformat()}) for row in rows(15_000, 15_000)]
    db.insert_lines("s", [*lines, "{broken"])
    db.drain()
    assert ids(db) == list(range(30_000))
    assert len(db.query("SELECT * FROM s__dead")) == 1


def test_an_epoch_ends_at_its_limit(connect: Connect) -> None:
    db = connect(settings=ms.EngineSettings(max_epoch_rows=10_000))
    db.sql(f"{STREAM} WITH (partitions = 2); {IDS}; {COUNTS}")
    db.insert("s", rows(0, 25_000))
    assert db.drain() >= 3
    epochs = db.sql("SHOW EPOCHS").rows()  # type: ignore[union-attr]
    assert all(epoch["rows_in"] <= 10_001 for epoch in epochs)
    assert ids(db) == list(range(25_000))


def test_nothing_new_is_no_epoch(connect: Connect) -> None:
    db = connect()
    db.sql(f"{STREAM}; {IDS}")
    assert db.drain() == 0
    db.insert("s", rows(0, 5))
    assert db.drain() == 1
    assert db.drain() == 1
    assert db.insert("s", []) == 0
    assert db.drain() == 1


def test_two_streams_share_a_topic(connect: Connect) -> None:
    """A second stream over the same topic reads what is there."""
    db = connect()
    db.sql(f"{STREAM} WITH (topic = 'shared'); {IDS}")
    db.insert("s", rows(0, 5))
    db.drain()
    db.sql(f"CREATE STREAM other ({COLUMNS}) WITH (topic = 'shared')")
    db.sql("CREATE MATERIALIZED VIEW others AS SELECT id FROM other")
    db.insert("other", rows(5, 5))
    db.drain()
    assert ids(db) == ids(db, "others") == list(range(10))


# -- backfill --------------------------------------------------------------------------------------


def test_a_view_created_after_data_begins_with_history(connect: Connect) -> None:
    db = connect()
    db.sql(f"{STREAM} WITH (partitions = 2); {IDS}; {COUNTS}")
    db.insert("s", rows(0, 500))
    db.drain()
    db.insert("s", rows(500, 500))
    db.sql(COUNTS.replace("counts", "younger"))
    db.sql(COUNTS.replace("counts", "fresh WITH (backfill = 'false')"))
    db.drain()
    assert everything(db, "younger") == everything(db, "counts")
    assert sum(row["n"] for row in db.query("SELECT n FROM fresh").rows()) == 500
    db = reopen(connect, db)
    db.insert("s", rows(1000, 100))
    db.drain()
    assert everything(db, "younger") == everything(db, "counts")
    assert ids(db) == list(range(1100))
    epochs = [row["epoch"] for row in db.sql("SHOW EPOCHS").rows()]  # type: ignore[union-attr]
    assert epochs == list(range(1, len(epochs) + 1))


def test_history_that_takes_several_epochs(connect: Connect) -> None:
    """Also when the database is closed half-way."""
    settings = ms.EngineSettings(max_epoch_rows=10_000)
    db = connect(settings=settings)
    db.sql(f"{STREAM} WITH (partitions = 2); {IDS}")
    db.insert("s", rows(0, 25_000))
    db.drain()
    db.sql(COUNTS)
    assert parts_of(db).history.step()
    partly = sum(row["n"] for row in db.query("SELECT n FROM counts").rows())
    assert 0 < partly < 25_000
    db = reopen(connect, db, settings=settings)
    db.insert("s", rows(25_000, 10))
    db.drain()
    assert sum(row["n"] for row in db.query("SELECT n FROM counts").rows()) == 25_010
    assert ids(db) == list(range(25_010))


def reopen(connect: Connect, db: ms.Database, name: str = "db", **arguments: Any) -> ms.Database:
    db.close()
    return connect(name, **arguments)


# -- files -----------------------------------------------------------------------------------------


def write(directory: Path, name: str, format_: str, data: list[Row]) -> None:
    """A file that appears under its name when it is complete."""
    directory.mkdir(exist_ok=True)
    hidden = directory / f".{name}"
    match format_:
        case "json":
            hidden.write_text("".join(json.dumps({**row, "ts": row["ts"].isoformat()}) + "\n" for row in data))
        case "csv":
            lines = [f"{row['id']},{row['k']},{row['v']},{row['ts'].isoformat(sep=' ')}\n" for row in data]
            hidden.write_text("id,k,v,ts\n" + "".join(lines))
        case "parquet":
            table = pa.Table.from_pylist(data)
            at = table.schema.get_field_index("ts")
            pq.write_table(table.set_column(at, "ts", table.column("ts").cast(pa.timestamp("us", "UTC"))), hidden)
    hidden.rename(directory / name)


@pytest.mark.parametrize("format_", ["json", "csv", "parquet"])
def test_each_file_is_read_once(connect: Connect, tmp_path: Path, format_: str) -> None:
    inbox = tmp_path / "inbox"
    db = connect()
    header = ", header = 'true'" if format_ == "csv" else ""
    db.sql(f"{STREAM} WITH (source = 'files', path = '{inbox}', format = '{format_}'{header}); {IDS}; {COUNTS}")
    assert db.drain() == 0, "a directory that is not there yet is an empty one"
    write(inbox, "a", format_, rows(0, 50))
    write(inbox, "b", format_, rows(50, 50))
    db.drain()
    assert ids(db) == list(range(100))
    last = db.drain()
    db = reopen(connect, db)
    assert db.drain() == last
    assert ids(db) == list(range(100))
    write(inbox, "0-sorts-first", format_, rows(100, 50))
    db.drain()
    assert ids(db) == list(range(150))
    (tmp_path / "inbox" / "a").unlink()
    db = reopen(connect, db)
    write(inbox, "c", format_, rows(150, 10))
    db.drain()
    assert ids(db) == list(range(160))
    assert sum(row["n"] for row in db.query("SELECT n FROM counts").rows()) == 160


def test_files_by_pattern_and_hidden_ones(connect: Connect, tmp_path: Path) -> None:
    inbox = tmp_path / "inbox"
    db = connect()
    db.sql(f"{STREAM} WITH (source = 'files', path = '{inbox}', format = 'json', pattern = '*.json'); {IDS}")
    write(inbox, "a.json", "json", rows(0, 5))
    write(inbox, "a.txt", "json", rows(5, 5))
    write(inbox, "_a.json", "json", rows(10, 5))
    (inbox / ".b.json").write_text("{half a")
    (inbox / "directory.json").mkdir()
    write(inbox, "empty.json", "json", [])
    db.drain()
    assert ids(db) == list(range(5))
    assert len(db.query("SELECT * FROM s__dead")) == 0


def test_files_per_epoch(connect: Connect, tmp_path: Path) -> None:
    inbox = tmp_path / "inbox"
    db = connect()
    db.sql(f"{STREAM} WITH (source = 'files', path = '{inbox}', format = 'json', files_per_epoch = '2'); {IDS}")
    for number in range(5):
        write(inbox, f"{number}.json", "json", rows(number * 10, 10))
    assert db.drain() == 3
    assert ids(db) == list(range(50))


def test_a_view_over_files_reads_history(connect: Connect, tmp_path: Path) -> None:
    inbox = tmp_path / "inbox"
    db = connect()
    db.sql(f"{STREAM} WITH (source = 'files', path = '{inbox}', format = 'json'); {IDS}")
    write(inbox, "a.json", "json", rows(0, 20))
    db.drain()
    db.sql(COUNTS)
    write(inbox, "b.json", "json", rows(20, 20))
    db.drain()
    assert sum(row["n"] for row in db.query("SELECT n FROM counts").rows()) == 40
    assert ids(db) == list(range(40))


# -- datagen ---------------------------------------------------------------------------------------

GENERATED = (
    "CREATE STREAM s (id BIGINT, k STRING, v BIGINT, x DOUBLE, b BOOLEAN, ts TIMESTAMP, "
    "WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS) WITH (source = 'datagen', start = '2024-03-01 00:00:00', "
    "interval = '100 milliseconds', disorder = '2 seconds', late_share = '0.05', late_by = '30 seconds', "
    "'fields.id.kind' = 'sequence', 'fields.k.values' = 'a, b, c', 'fields.v.min' = '-5', 'fields.v.max' = '5', "
    "'fields.v.null_share' = '0.1', {more})"
)
ALL = "CREATE MATERIALIZED VIEW everything AS SELECT * FROM s"


def test_generated_rows_depend_on_the_seed_alone(connect: Connect) -> None:
    """Not on where epochs end, nor on restarts."""
    at_once = connect("at_once")
    at_once.sql(f"{GENERATED.format(more='seed = 7, rows = 2000')}; {ALL}; {IDS}")
    at_once.drain()
    clock = ms.ManualClock(1_700_000_000)
    in_steps = connect("in_steps", clock=clock)
    in_steps.sql(f"{GENERATED.format(more='seed = 7, rows = 2000, rate = 100')}; {ALL}; {IDS}")
    for step in range(6):
        clock.advance(5)
        in_steps.drain()
        assert len(in_steps.query("SELECT id FROM everything")) == min(2000, 500 * (step + 1))
        if step == 1:
            in_steps = reopen(connect, in_steps, "in_steps", clock=clock)
            in_steps.drain()
            assert len(in_steps.query("SELECT id FROM everything")) == 1000
    assert ids(in_steps) == list(range(2000))
    assert everything(in_steps, "everything") == everything(at_once, "everything")
    other = connect("other")
    other.sql(f"{GENERATED.format(more='seed = 8, rows = 2000')}; {ALL}")
    other.drain()
    assert everything(other, "everything") != everything(at_once, "everything")


def test_generated_values_follow_their_rules(connect: Connect) -> None:
    db = connect()
    db.sql(f"{GENERATED.format(more='rows = 2000')}; {ALL}")
    db.drain()
    data = db.query("SELECT * FROM everything").rows()
    assert {row["k"] for row in data} == {"a", "b", "c"}
    assert {row["v"] for row in data} == {None, *range(-5, 6)}
    assert 100 < sum(row["v"] is None for row in data) < 300
    assert {row["b"] for row in data} == {True, False}
    assert all(0 <= row["x"] <= 1 for row in data)
    behind = [START + timedelta(milliseconds=100 * row["id"]) - row["ts"] for row in data]
    assert min(behind) >= timedelta(0)
    late = [by for by in behind if by > timedelta(seconds=2)]
    assert 20 < len(late) < 180
    assert max(behind) <= timedelta(seconds=32)
    assert len({row["ts"] for row in data}) > 1500, "disorder is not the same for every row"


def test_generated_rows_come_at_their_rate(connect: Connect) -> None:
    clock = ms.ManualClock(0)
    db = connect(clock=clock)
    db.sql(
        "CREATE STREAM s (id BIGINT, ts TIMESTAMP) "
        "WITH (source = 'datagen', rate = '10', 'fields.id.kind' = 'sequence')"
    )
    db.sql(IDS)
    assert db.drain() == 0
    for seconds, expected in ((1, 10), (0.05, 10), (0.05, 11), (10, 111)):
        clock.advance(seconds)
        db.drain()
        assert len(ids(db)) == expected
    # What the clock does while nothing runs is not made up for.
    db.close()
    clock.advance(100)
    db = connect(clock=clock)
    db.drain()
    assert len(ids(db)) == 111
    clock.advance(1)
    db.drain()
    assert ids(db) == list(range(121))


# -- socket ----------------------------------------------------------------------------------------


def line(row: Row) -> bytes:
    return json.dumps({**row, "ts": row["ts"].isoformat()}).encode() + b"\n"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def test_lines_from_clients(connect: Connect) -> None:
    port = free_port()
    db = connect()
    db.sql(f"{STREAM} WITH (source = 'socket', listen = 'true', port = '{port}'); {IDS}")
    db.start()
    data = b"".join(line(row) for row in rows(0, 200))

    def send(part: bytes) -> None:
        with socket.create_connection(("127.0.0.1", port)) as client:
            for low in range(0, len(part), 97):
                client.sendall(part[low : low + 97])

    first, second = data[: len(data) // 2], data[len(data) // 2 :]
    cut = first.rfind(b"\n") + 1
    clients = [
        threading.Thread(target=send, args=(part,))
        for part in (first[:cut], first[cut:] + second, b"{broken\n\n\r\n", line(rows(200, 1)[0]).rstrip())
    ]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    until(lambda: len(ids(db)) == 201 and len(db.query("SELECT * FROM s__dead")) == 1)
    db.stop()
    assert ids(db) == list(range(201))
    # What has landed stays, and the port is open again after a restart.
    db = reopen(connect, db)
    send(line(rows(201, 1)[0]))
    until(lambda: sum(parts_of(db).log.topic("s").end_offsets().values()) == 203)
    db.drain()
    assert ids(db) == list(range(202))


def test_lines_from_a_server(connect: Connect) -> None:
    """We connect, and connect again when the connection ends."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        db = connect()
        db.sql(f"{STREAM} WITH (source = 'socket', host = '127.0.0.1', port = '{port}'); {IDS}")
        for number in range(2):
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"".join(line(row) for row in rows(number * 10, 10)))
        until(lambda: sum(parts_of(db).log.topic("s").end_offsets().values()) == 20)
        db.drain()
        assert ids(db) == list(range(20))
        db.close()


def test_a_line_that_is_too_long_is_a_dead_letter(connect: Connect) -> None:
    port = free_port()
    db = connect()
    db.sql(f"{STREAM} WITH (source = 'socket', listen = 'true', port = '{port}', max_line = '1 kB'); {IDS}")
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(line(rows(0, 1)[0]) + b'{"id": 7, "x": "' + b"x" * 5_000 + b'"}\n' + line(rows(1, 1)[0]))
    until(lambda: sum(parts_of(db).log.topic("s").end_offsets().values()) == 3)
    db.drain()
    assert ids(db) == [0, 1]
    (dead,) = db.query("SELECT reason, raw FROM s__dead").rows()
    assert dead["reason"] == "line too long"
    assert dead["raw"].startswith('{"id": 7, "x": "xxx')
    assert len(dead["raw"]) < 1_100


def test_a_port_that_is_taken(connect: Connect) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        db = connect()
        with pytest.raises(ms.MillstreamError) as caught:
            db.sql(f"{STREAM} WITH (source = 'socket', listen = 'true', port = '{server.getsockname()[1]}')")
        assert caught.value.code == "SOCKET_UNAVAILABLE"
        assert db.sql("SHOW STREAMS").rows() == []  # type: ignore[union-attr]


# -- Spark's own sources ---------------------------------------------------------------------------


def test_files_through_structured_streaming(connect: Connect, tmp_path: Path) -> None:
    inbox = tmp_path / "inbox"
    write(inbox, "a.json", "json", rows(0, 50))
    db = connect()
    db.sql(
        f"{STREAM} WITH (source = 'spark', format = 'json', path = '{inbox}', 'option.maxFilesPerTrigger' = '1'); "
        f"{IDS}; {COUNTS}"
    )
    db.drain()
    assert ids(db) == list(range(50))
    last = db.drain()
    write(inbox, "b.json", "json", rows(50, 25))
    write(inbox, "c.json", "json", rows(75, 25))
    db.drain()
    assert ids(db) == list(range(100))
    db = reopen(connect, db)
    db.drain()
    write(inbox, "d.json", "json", rows(100, 10))
    assert db.drain() > last
    assert ids(db) == list(range(110))
    assert sum(row["n"] for row in db.query("SELECT n FROM counts").rows()) == 110


def test_a_replayed_batch_is_recognised(connect: Connect, tmp_path: Path) -> None:
    """Spark's checkpoint forgets the last commit, as after a kill between our commit and its own."""
    inbox = tmp_path / "inbox"
    db = connect()
    db.sql(f"{STREAM} WITH (source = 'spark', format = 'json', path = '{inbox}'); {IDS}")
    for number in range(3):
        write(inbox, f"{number}.json", "json", rows(number * 10, 10))
        db.drain()
    assert ids(db) == list(range(30))
    db.close()
    checkpoints = tmp_path / "db" / "spark" / "checkpoints"
    commits = sorted(checkpoints.glob("*/commits/[0-9]*"), key=lambda p: int(p.name))
    assert commits
    commits[-1].unlink()
    for checksum in commits[-1].parent.glob(f".{commits[-1].name}.crc"):
        checksum.unlink()
    db = connect()
    db.drain()
    assert ids(db) == list(range(30)), "the replayed batch was counted again"
    write(inbox, "3.json", "json", rows(30, 10))
    db.drain()
    assert ids(db) == list(range(40))


def test_rate_per_micro_batch(connect: Connect) -> None:
    db = connect()
    db.sql(
        "CREATE STREAM s (value BIGINT, timestamp TIMESTAMP, WATERMARK FOR timestamp AS timestamp - INTERVAL 1 SECOND) "
        "WITH (source = 'spark', format = 'rate-micro-batch', 'option.rowsPerBatch' = '20', "
        "'option.startTimestamp' = '1700000000000', 'option.advanceMillisPerBatch' = '1000')"
    )
    db.sql("CREATE MATERIALIZED VIEW ids AS SELECT value AS id FROM s")
    db.sql(
        "CREATE MATERIALIZED VIEW counts AS SELECT window_start, count(*) AS n "
        "FROM TUMBLE(s, timestamp, INTERVAL 1 SECOND) GROUP BY window_start EMIT ON WATERMARK"
    )
    db.start()
    until(lambda: len(ids(db)) >= 60)
    db.stop()
    seen = ids(db)
    assert seen == list(range(len(seen)))
    assert all(row["n"] == 20 for row in db.query("SELECT n FROM counts").rows())
    db = reopen(connect, db)
    db.start()
    until(lambda: len(ids(db)) > len(seen))
    db.stop()
    assert ids(db) == list(range(len(ids(db))))


def test_rate(connect: Connect) -> None:
    db = connect()
    db.sql(
        "CREATE STREAM s (value BIGINT, timestamp TIMESTAMP) "
        "WITH (source = 'spark', format = 'rate', 'option.rowsPerSecond' = '50')"
    )
    db.sql("CREATE MATERIALIZED VIEW ids AS SELECT value AS id FROM s")
    db.start()
    until(lambda: len(ids(db)) >= 50)
    db.stop()
    assert ids(db) == list(range(len(ids(db))))


def test_a_format_that_does_not_exist(connect: Connect) -> None:
    db = connect()
    db.sql("CREATE STREAM s (v BIGINT) WITH (source = 'spark', format = 'nonsense')")
    db.sql("CREATE MATERIALIZED VIEW w AS SELECT v FROM s")
    with pytest.raises(ms.MillstreamError) as caught:
        db.drain()
    assert "nonsense" in str(caught.value)
    assert "\tat " not in str(caught.value)


# -- running continuously --------------------------------------------------------------------------


def test_start_and_stop(connect: Connect) -> None:
    db = connect()
    db.sql(f"{STREAM}; {IDS}; {COUNTS}")
    db.start()
    db.start()
    for number in range(10):
        db.insert("s", rows(number * 20, 20))
    until(lambda: len(ids(db)) == 200)
    db.stop()
    db.insert("s", rows(200, 10))
    time.sleep(0.3)
    assert len(ids(db)) == 200, "stopped"
    db.start()
    until(lambda: len(ids(db)) == 210)
    db.stop()
    db.stop()
    assert ids(db) == list(range(210))


def test_what_runs_is_kept_until_it_is_closed(tmp_path: Path) -> None:
    """A program may let go of a database that runs: it goes on, and is closed at the end of the program."""
    db = ms.connect(tmp_path / "db")
    db.start()
    kept = weakref.ref(db)
    del db
    gc.collect()
    found = kept()
    assert found is not None
    assert found.status()["running"]
    found.close()


def test_readers_see_one_epoch(connect: Connect) -> None:
    """Two views in one query show the same prefix, whatever the writer is doing."""
    db = connect()
    db.sql(f"{STREAM} WITH (partitions = 2)")
    db.sql("CREATE MATERIALIZED VIEW per_key AS SELECT k, count(*) AS n FROM s GROUP BY k")
    db.sql("CREATE MATERIALIZED VIEW total AS SELECT count(*) AS n FROM s")
    db.start()
    done = threading.Event()

    def produce() -> None:
        for number in range(40):
            db.insert("s", rows(number * 25, 25))
            time.sleep(0.01)
        done.set()

    producer = threading.Thread(target=produce)
    producer.start()
    looks = 0
    while not done.is_set() or looks < 20:
        (row,) = db.query("SELECT (SELECT sum(n) FROM per_key) AS a, (SELECT n FROM total) AS b").rows()
        assert (row["a"] or 0) == row["b"]
        looks += 1
    producer.join()
    db.stop()
    db.drain()
    assert db.query("SELECT n FROM total").rows() == [{"n": 1000}]


def test_changes_are_pushed(connect: Connect) -> None:
    db = connect()
    db.sql(f"{STREAM}; {IDS}")
    db.start()
    subscription = db.subscribe("ids")
    received: list[Row] = []

    consumer = threading.Thread(target=lambda: received.extend(subscription))
    consumer.start()
    for number in range(5):
        db.insert("s", rows(number * 10, 10))
        time.sleep(0.05)
    until(lambda: len(received) >= 50)
    subscription.close()
    consumer.join(10)
    assert not consumer.is_alive()
    db.stop()
    assert sorted(change["id"] for change in received) == list(range(50))
    assert [change["epoch"] for change in received] == sorted(change["epoch"] for change in received)


def test_a_subscription_resumes_without_loss_or_repeats(connect: Connect) -> None:
    db = connect()
    db.sql(f"{STREAM}; {IDS}; CREATE MATERIALIZED VIEW total AS SELECT count(*) AS n FROM s")
    for number in range(4):
        db.insert("s", rows(number * 10, 10))
        db.drain()
    everything_said = db.changes("ids").rows()
    received: list[Row] = []
    first = db.subscribe("ids")
    while not received or received[-1]["epoch"] < 2 or len(received) < 20:
        received.append(next(first))
    first.close()
    db = reopen(connect, db)
    second = db.subscribe("ids", from_epoch=received[-1]["epoch"] + 1)
    received += [next(second) for _ in range(20)]
    assert received == everything_said
    db.insert("s", rows(40, 3))
    db.drain()
    assert sorted(next(second)["id"] for _ in range(3)) == [40, 41, 42]
    # A view without groups has its first row before the first epoch.
    totals = [change["n"] for change in db.changes("total").rows()]
    assert totals == [0, 10, 20, 30, 40, 43]
    (before, *_) = db.changes("total").rows()
    rest = db.subscribe("total", from_epoch=before["epoch"] + 1)
    assert [next(rest)["n"] for _ in range(5)] == totals[1:]


def test_a_subscription_ends_with_the_database(connect: Connect) -> None:
    db = connect()
    db.sql(f"{STREAM}; {IDS}")
    db.insert("s", rows(0, 3))
    db.drain()
    received: list[Row] = []
    consumer = threading.Thread(target=lambda: received.extend(db.subscribe("ids")))
    consumer.start()
    time.sleep(0.2)
    db.close()
    consumer.join(10)
    assert not consumer.is_alive()
    assert len(received) == 3
