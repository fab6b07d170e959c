"""Bad input: what is wrong with a row concerns that row, what is wrong with a statement is said in words."""

from __future__ import annotations

import contextlib
import json
import threading
import time
import warnings
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import millstream as ms
from tests.answers import untyped
from tests.parts import parts_of

pytestmark = pytest.mark.spark

Connect = Callable[..., ms.Database]
Row = dict[str, Any]
GOOD = {"id": 1, "k": "a", "v": 10, "ts": "2024-03-01 12:00:00"}


def refused(action: Callable[[], object]) -> ms.MillstreamError:
    """The error of an action that must fail, checked for its form."""
    with pytest.raises(ms.MillstreamError) as caught:
        action()
    error = caught.value
    assert error.code == error.code.upper()
    assert error.message
    assert not error.message[0].isupper() or not error.message.split()[0].istitle(), error.message
    assert "\n" not in error.message
    for sign in ("\tat ", "org.apache", "java.lang", "Traceback", "Py4J", ".scala"):
        assert sign not in str(error), str(error)
    return error


def create(db: ms.Database, options: str = "") -> None:
    db.sql(
        "CREATE STREAM s (id BIGINT, k STRING, v BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS)"
        f"{options}; CREATE MATERIALIZED VIEW ids AS SELECT id, k, v, ts FROM s"
    )


def ids(db: ms.Database) -> list[Any]:
    return sorted(row["id"] for row in db.query("SELECT id FROM ids").rows())


def dead(db: ms.Database) -> list[Row]:
    return db.query("SELECT * FROM s__dead ORDER BY _partition, _offset, _view").rows()


def check_accounts(db: ms.Database) -> None:
    for epoch in db.sql("SHOW EPOCHS").rows():  # type: ignore[union-attr]
        assert epoch["rows_in"] == epoch["rows_decoded"] + epoch["rows_dead"]
        streams, views = json.loads(epoch["streams"]), json.loads(epoch["views"])
        for counts in views.values():
            assert sum(counts[w] for w in ("used", "filtered", "late", "failed")) == streams["s"]["decoded"]


# -- lines -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{not json", "malformed"),
        (b"[1, 2]", "malformed"),
        (b"42", "malformed"),
        (b'"text"', "malformed"),
        (b"null", "malformed"),
        (b"   ", "malformed"),
        (b'{"id": 2, "ts": "2024-03-01 12:00:00"}{"id": 3, "ts": "2024-03-01 12:00:00"}', "malformed"),
        (b'{"id": 2, "ts": "2024-03-01 12:00:00"} trailing', "malformed"),
        (b'{"id": "two", "ts": "2024-03-01 12:00:00"}', "malformed"),
        (b'{"id": 2.5, "ts": "2024-03-01 12:00:00"}', "malformed"),
        (b'{"id": 99999999999999999999, "ts": "2024-03-01 12:00:00"}', "malformed"),
        (b'{"id": 2, "ts": "yesterday"}', "malformed"),
        (b'{"id": 2, "ts": null}', "event time"),
        (b'{"id": 2}', "event time"),
        (b"{}", "event time"),
        (b'{"id": 2, "k": "\xff\xfe", "ts": "2024-03-01 12:00:00"}', "UTF-8"),
        (b"\xff\xfe\x00", "UTF-8"),
    ],
    ids=str,
)
def test_a_bad_line_is_a_dead_letter_and_the_others_go_on(connect: Connect, line: bytes, reason: str) -> None:
    db = connect()
    create(db)
    good = json.dumps(GOOD).encode()
    db.insert_lines("s", [good, line, good.replace(b'"id": 1', b'"id": 3')])
    db.drain()
    assert ids(db) == [1, 3]
    (letter,) = dead(db)
    assert reason in letter["reason"]
    assert letter["_offset"] == 1
    assert letter["_view"] is None
    if reason != "UTF-8":
        assert letter["raw"] == line.decode()
    else:
        assert letter["raw"] is not None
    check_accounts(db)


def test_missing_and_extra_fields(connect: Connect) -> None:
    """A missing field is NULL; a field that the stream does not have is ignored."""
    db = connect()
    create(db)
    db.insert_lines("s", ['{"id": 1, "ts": "2024-03-01T12:00:00Z", "colour": "red", "deep": {"x": [1]}}'])
    db.drain()
    (row,) = db.query("SELECT * FROM ids").rows()
    assert row == {"id": 1, "k": None, "v": None, "ts": datetime(2024, 3, 1, 12)}
    assert dead(db) == []


def test_lines_of_csv(connect: Connect) -> None:
    db = connect()
    create(db, " WITH (format = 'csv')")
    lines = ["1,a,10,2024-03-01 12:00:00", "2,a,ten,2024-03-01 12:00:00", "3,,,2024-03-01 12:00:00", "4,a"]
    db.insert_lines("s", [*lines, '5,"x, y",7,2024-03-01 12:00:00', "6,a,1,2024-03-01 12:00:00,more"])
    db.drain()
    assert set(ids(db)) >= {1, 3, 5}
    assert 2 not in ids(db)
    assert db.query("SELECT k FROM ids WHERE id = 5").rows() == [{"k": "x, y"}]
    assert len(ids(db)) + len(dead(db)) == 6
    assert all(letter["reason"] for letter in dead(db))
    check_accounts(db)


def test_huge_rows(connect: Connect) -> None:
    """Rows of several megabytes, as lines and as values, bad and good."""
    db = connect()
    create(db)
    text = "x" * (5 * 2**20)
    db.insert("s", [{**GOOD, "id": 1, "k": text}])
    db.insert_lines("s", [json.dumps({**GOOD, "id": 2, "k": text}), '{"id": 3, "k": "' + text])
    db.drain()
    assert ids(db) == [1, 2]
    assert db.query("SELECT sum(length(k)) AS n FROM ids").rows() == [{"n": 2 * len(text)}]
    (letter,) = dead(db)
    assert "malformed" in letter["reason"]
    assert len(letter["reason"]) < 1000


def test_many_bad_lines_at_once(connect: Connect) -> None:
    """The way through the executors sets aside the same rows as the way through the driver."""
    db = connect()
    create(db)
    lines = [json.dumps({**GOOD, "id": n}) if n % 10 else "{broken" for n in range(25_000)]
    db.insert_lines("s", lines)
    db.drain()
    assert len(ids(db)) == 22_500
    assert len(dead(db)) == 2_500
    check_accounts(db)


# -- event time ------------------------------------------------------------------------------------


def test_no_event_time(connect: Connect) -> None:
    db = connect()
    create(db)
    db.insert("s", [{**GOOD, "id": 1}, {**GOOD, "id": 2, "ts": None}, {"id": 3}])
    db.drain()
    assert ids(db) == [1]
    assert [letter["reason"] for letter in dead(db)] == ["event time ts is NULL"] * 2
    assert [letter["id"] for letter in dead(db)] == [2, 3]


def test_a_clock_that_runs_ahead_does_not_close_every_window(connect: Connect) -> None:
    """By default an event may be a day ahead of the machine's clock."""
    db = connect()
    create(db)
    now = datetime.now(UTC).replace(tzinfo=None)
    db.sql(
        "CREATE MATERIALIZED VIEW counts AS SELECT window_start, count(*) AS n "
        "FROM TUMBLE(s, ts, INTERVAL 1 MINUTE) GROUP BY window_start"
    )
    ahead = [now + timedelta(days=2), datetime(2999, 1, 1), datetime(5000, 6, 1)]
    db.insert("s", [{**GOOD, "id": n, "ts": ts} for n, ts in enumerate([now, *ahead, now + timedelta(hours=20)])])
    db.drain()
    assert ids(db) == [0, 4]
    assert [letter["id"] for letter in dead(db)] == [1, 2, 3]
    assert all("ahead" in letter["reason"] for letter in dead(db))
    (stream,) = db.sql("SHOW STREAMS").rows()  # type: ignore[union-attr]
    assert stream["watermark"] < now + timedelta(days=1)


def test_how_far_ahead_is_an_option(connect: Connect) -> None:
    clock = ms.ManualClock(datetime(2024, 3, 1, 12, tzinfo=UTC).timestamp())
    db = connect(clock=clock)
    create(db, " WITH (max_ahead = '10 minutes')")
    start = datetime(2024, 3, 1, 12)
    times = [start, start + timedelta(minutes=10), start + timedelta(minutes=10, microseconds=1)]
    db.insert("s", [{**GOOD, "id": n, "ts": ts} for n, ts in enumerate(times)])
    db.drain()
    assert ids(db) == [0, 1]
    (letter,) = dead(db)
    assert letter["id"] == 2
    assert "10 minutes" in letter["reason"]
    # What counts is when the row came, not when it was read.
    clock.advance(60)
    db.insert("s", [{**GOOD, "id": 3, "ts": start + timedelta(minutes=11)}])
    db.drain()
    assert ids(db) == [0, 1, 3]


def test_timestamps_far_in_the_past(connect: Connect) -> None:
    """Before 1970 is a time like any other; windows are aligned to 1970 there too."""
    db = connect()
    create(db)
    db.sql(
        "CREATE MATERIALIZED VIEW counts AS SELECT window_start, count(*) AS n "
        "FROM HOP(s, ts, INTERVAL 10 SECONDS, INTERVAL 20 SECONDS) GROUP BY window_start"
    )
    times = [datetime(1815, 6, 18), datetime(1969, 12, 31, 23, 59, 59), datetime(1970, 1, 1)]
    db.insert("s", [{**GOOD, "id": n, "ts": ts} for n, ts in enumerate(times)])
    db.drain()
    assert ids(db) == [0, 1, 2]
    starts = {row["window_start"]: row["n"] for row in db.query("SELECT * FROM counts").rows()}
    assert starts[datetime(1969, 12, 31, 23, 59, 50)] == 2
    assert starts[datetime(1970, 1, 1)] == 1
    assert starts[datetime(1969, 12, 31, 23, 59, 40)] == 1
    assert sum(starts.values()) == 6
    # The next epoch has a watermark: what is that old is late for windows, and kept.
    db.insert("s", [{**GOOD, "id": 9, "ts": datetime(1815, 6, 18)}])
    db.drain()
    (late,) = db.query("SELECT * FROM s__late").rows()
    assert late["id"] == 9
    assert late["_view"] == "counts"
    check_accounts(db)


@pytest.mark.parametrize("at", [datetime(1, 1, 1), datetime.max], ids=str)
def test_a_time_at_the_edge_of_the_calendar(connect: Connect, at: datetime) -> None:
    """Whatever becomes of the row, the view stays readable and the other rows count."""
    db = connect()
    create(db, " WITH (max_ahead = '10000000 days')")
    db.sql(
        "CREATE MATERIALIZED VIEW counts AS SELECT window_start, window_end, count(*) AS n "
        "FROM HOP(s, ts, INTERVAL 10 SECONDS, INTERVAL 20 SECONDS) GROUP BY window_start, window_end"
    )
    db.insert("s", [{**GOOD, "id": 1}, {**GOOD, "id": 2, "ts": at}])
    db.drain()
    assert 1 in ids(db)
    good = [row for row in db.query("SELECT * FROM counts").rows() if row["window_start"].year == 2024]
    assert sum(row["n"] for row in good) == 2
    check_accounts(db)


# -- inserted rows ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "code"),
    [
        ([{**GOOD, "colour": 1}], "UNKNOWN_COLUMN"),
        ([{**GOOD, "v": "ten"}], "TYPE_MISMATCH"),
        ([{**GOOD, "v": 1.5}], "TYPE_MISMATCH"),
        ([{**GOOD, "v": True}], "TYPE_MISMATCH"),
        ([{**GOOD, "v": 2**63}], "TYPE_MISMATCH"),
        ([{**GOOD, "k": 5}], "TYPE_MISMATCH"),
        ([{**GOOD, "k": b"\xff\xfe"}], "TYPE_MISMATCH"),
        ([{**GOOD, "ts": "yesterday"}], "TYPE_MISMATCH"),
        ([{**GOOD, "ts": [1]}], "TYPE_MISMATCH"),
        ([{**GOOD, "v": {"a": 1}}], "TYPE_MISMATCH"),
        ([GOOD, 5], "BAD_ROWS"),
        (GOOD, "BAD_ROWS"),
        ("text", "BAD_ROWS"),
        (5, "BAD_ROWS"),
        (pa.table({"id": ["x"]}), "TYPE_MISMATCH"),
        (pa.table({"colour": [1]}), "UNKNOWN_COLUMN"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_rows_that_do_not_fit_are_refused_whole(connect: Connect, rows: Any, code: str) -> None:
    db = connect()
    create(db)
    assert refused(lambda: db.insert("s", rows)).code == code
    assert (
        refused(lambda: db.insert("s", [GOOD, *rows]) if isinstance(rows, list) else db.insert("s", rows)).code == code
    )
    db.drain()
    assert ids(db) == []
    db.insert("s", [GOOD])
    db.drain()
    assert ids(db) == [1]


def test_unknown_columns_get_a_hint(connect: Connect) -> None:
    db = connect()
    db.sql("CREATE STREAM s (price BIGINT)")
    error = refused(lambda: db.insert("s", [{"prize": 1}]))
    assert "price" in (error.hint or "")


def test_unknown_streams_get_a_hint(connect: Connect) -> None:
    db = connect()
    db.sql("CREATE STREAM bids (price BIGINT)")
    error = refused(lambda: db.insert("bidz", [{"price": 1}]))
    assert error.code == "UNKNOWN_STREAM"
    assert "bids" in (error.hint or "")
    assert refused(lambda: db.changes("nothing")).code == "UNKNOWN_VIEW"
    assert refused(lambda: db.subscribe("nothing")).code == "UNKNOWN_VIEW"


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO s VALUES (1, 'a')",
        "INSERT INTO s (id, colour) VALUES (1, 'a')",
        "INSERT INTO s (id, v) VALUES ('one', 2)",
        "INSERT INTO nothing VALUES (1)",
        "INSERT INTO s (id) VALUES (99999999999999999999)",
    ],
)
def test_bad_insert_statements(connect: Connect, sql: str) -> None:
    db = connect()
    create(db)
    refused(lambda: db.sql(sql))
    db.drain()
    assert ids(db) == []


def test_message_ids_must_match_the_rows(connect: Connect) -> None:
    db = connect()
    create(db)
    refused(lambda: db.insert("s", [GOOD, GOOD], message_ids=["a"]))
    assert db.insert("s", [GOOD, GOOD], message_ids=["a", "a"]) == 1
    assert db.insert("s", [GOOD], message_ids=["a"]) == 0


# -- files -----------------------------------------------------------------------------------------


def files_stream(db: ms.Database, directory: Path, format_: str, more: str = "") -> None:
    directory.mkdir(exist_ok=True)
    create(db, f" WITH (source = 'files', path = '{directory}', format = '{format_}'{more})")


def test_bad_lines_in_json_files(connect: Connect, tmp_path: Path) -> None:
    db = connect()
    files_stream(db, tmp_path / "in", "json")
    good = json.dumps(GOOD).encode()
    bad = [b"{broken", b'{"id": "x", "ts": "2024-03-01 12:00:00"}', b'{"id": 2, "ts": null}', b'{"id": 3, "k": "\xff"']
    (tmp_path / "in" / "a.json").write_bytes(b"\n".join([good, *bad, good.replace(b'"id": 1', b'"id": 9')]))
    db.drain()
    assert ids(db) == [1, 9]
    assert len(dead(db)) == 4
    assert all(letter["reason"] for letter in dead(db))
    check_accounts(db)


def test_bad_lines_in_csv_files(connect: Connect, tmp_path: Path) -> None:
    db = connect()
    files_stream(db, tmp_path / "in", "csv", ", header = 'true'")
    text = (
        "id,k,v,ts\n1,a,10,2024-03-01 12:00:00\n2,a,ten,2024-03-01 12:00:00\n3,a,1,never\n4,a,5,2024-03-01 12:00:01\n"
    )
    (tmp_path / "in" / "a.csv").write_text(text)
    db.drain()
    assert ids(db) == [1, 4]
    assert len(dead(db)) == 2
    check_accounts(db)


def test_files_that_are_not_what_they_should_be(connect: Connect, tmp_path: Path) -> None:
    """A file that is no Parquet at all is set aside with a reason that names it, not with a Java trace."""
    db = connect()
    files_stream(db, tmp_path / "in", "parquet")
    (tmp_path / "in" / "broken.parquet").write_bytes(b"this is not parquet")
    db.drain()
    (letter,) = dead(db)
    assert "broken.parquet" in str(letter)
    assert "java" not in str(letter)
    (tmp_path / "in" / "broken.parquet").unlink()
    db.drain()
    check_accounts(db)


def test_parquet_with_other_columns(connect: Connect, tmp_path: Path) -> None:
    db = connect()
    files_stream(db, tmp_path / "in", "parquet")
    ts = pa.array([datetime(2024, 3, 1), None], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"id": [1, 2], "more": ["x", "y"], "ts": ts}), tmp_path / "in" / "a.parquet")
    db.drain()
    assert ids(db) == [1]
    assert db.query("SELECT k, v FROM ids").rows() == [{"k": None, "v": None}]
    assert [letter["reason"] for letter in dead(db)] == ["event time ts is NULL"]


def test_files_ahead_of_time(connect: Connect, tmp_path: Path) -> None:
    db = connect()
    files_stream(db, tmp_path / "in", "json")
    (tmp_path / "in" / "a.json").write_text(json.dumps({**GOOD, "ts": "2999-01-01 00:00:00"}) + "\n" + json.dumps(GOOD))
    db.drain()
    assert ids(db) == [1]
    assert len(dead(db)) == 1
    assert "ahead" in dead(db)[0]["reason"]


def test_nothing_can_be_inserted_into_files(connect: Connect, tmp_path: Path) -> None:
    db = connect()
    files_stream(db, tmp_path / "in", "json")
    assert refused(lambda: db.insert("s", [GOOD])).code == "NOT_INSERTABLE"
    assert refused(lambda: db.insert_lines("s", ["{}"])).code == "NOT_INSERTABLE"
    refused(lambda: db.sql("INSERT INTO s (id) VALUES (1)"))


# -- expressions that fail -------------------------------------------------------------------------

FAILING = {
    "filter": "SELECT k, count(*) AS n FROM s WHERE 10 / v > 0 GROUP BY k",
    "key": "SELECT 10 / v AS q, count(*) AS n FROM s GROUP BY 10 / v",
    "argument": "SELECT k, sum(10 / v) AS n FROM s GROUP BY k",
    "aggregate_filter": "SELECT k, count(*) FILTER (WHERE 10 % v = 0) AS n FROM s GROUP BY k",
    "projection": "SELECT id, 10 / v AS q FROM s",
    "windowed": "SELECT window_start, avg(10 / v) AS q FROM TUMBLE(s, ts, INTERVAL 10 SECONDS) GROUP BY window_start",
    "overflow": "SELECT k, sum(v * 4611686018427387904) AS n FROM s GROUP BY k",
    "cast": "SELECT CAST(k AS INT) AS number, count(*) AS n FROM s GROUP BY CAST(k AS INT)",
}
POISON: dict[str, dict[str, Any]] = {"overflow": {"v": 3}, "cast": {"k": "poison"}}


@pytest.mark.parametrize("name", FAILING)
def test_a_row_on_which_an_expression_fails_is_a_dead_letter(connect: Connect, name: str) -> None:
    """The pipeline lives, the other rows count, and the other views use the row."""
    db = connect()
    create(db)
    db.sql(f"CREATE MATERIALIZED VIEW shaky AS {FAILING[name]}")
    rows = [{**GOOD, "id": n, "k": "1", "v": 1} for n in range(4)]
    rows[2] |= POISON.get(name, {"v": 0})
    db.insert("s", rows)
    db.drain()
    assert ids(db) == [0, 1, 2, 3]
    (letter,) = dead(db)
    assert letter["id"] == 2
    assert letter["_view"] == "shaky"
    assert letter["reason"]
    words = {"overflow": "overflow", "cast": "poison"}.get(name, "zero")
    assert words in letter["reason"].lower()
    assert "org.apache" not in letter["reason"]
    epoch = db.sql("SHOW EPOCHS").rows()[-1]  # type: ignore[union-attr]
    assert json.loads(epoch["views"])["shaky"]["failed"] == 1
    shown = db.query("SELECT * FROM shaky").rows()
    assert len(shown) == (3 if name == "projection" else 1)
    if "n" in shown[0] and name not in ("argument", "overflow"):
        assert shown[0]["n"] == 3
    check_accounts(db)
    # And on.
    db.insert("s", [{**GOOD, "id": 5, "k": "1", "v": 1}])
    db.drain()
    assert ids(db) == [0, 1, 2, 3, 5]
    assert len(dead(db)) == 1


def test_a_poison_row_among_many(connect: Connect) -> None:
    """In an epoch that executors read, with several shaky views."""
    db = connect()
    create(db, " WITH (partitions = 2)")
    db.sql("CREATE MATERIALIZED VIEW quotients AS SELECT k, sum(100 div v) AS q, count(*) AS n FROM s GROUP BY k")
    db.sql("CREATE MATERIALIZED VIEW numbers AS SELECT CAST(k AS INT) AS number, count(*) AS n FROM s GROUP BY 1")
    rows = [{**GOOD, "id": n, "k": str(n % 3), "v": n % 7} for n in range(21_000)]
    rows[5]["k"] = "five"
    db.insert("s", rows)
    db.drain()
    assert len(ids(db)) == 21_000
    assert sum(row["n"] for row in db.query("SELECT n FROM quotients").rows()) == 18_000
    assert sum(row["n"] for row in db.query("SELECT n FROM numbers").rows()) == 20_999
    by_view: dict[str, int] = {}
    for letter in dead(db):
        by_view[letter["_view"]] = by_view.get(letter["_view"], 0) + 1
    assert by_view == {"quotients": 3_000, "numbers": 1}
    check_accounts(db)


def test_division_by_zero_over_aggregates(connect: Connect) -> None:
    """An expression over a whole group has no single row to blame: it is NULL while it cannot be computed."""
    db = connect()
    create(db)
    db.sql("CREATE MATERIALIZED VIEW ratios AS SELECT k, sum(v) / count(*) FILTER (WHERE v > 5) AS r FROM s GROUP BY k")
    db.insert("s", [{**GOOD, "v": 1}])
    db.drain()
    assert db.query("SELECT * FROM ratios").rows() == [{"k": "a", "r": None}]
    db.insert("s", [{**GOOD, "v": 9}])
    db.drain()
    assert db.query("SELECT * FROM ratios").rows() == [{"k": "a", "r": 10.0}]
    assert dead(db) == []


def test_sums_beyond_64_bits_are_exact(connect: Connect) -> None:
    db = connect()
    create(db)
    db.sql("CREATE MATERIALIZED VIEW sums AS SELECT k, sum(v) AS total, avg(v) AS mean FROM s GROUP BY k")
    big, small = 2**63 - 1, -(2**63)
    for _ in range(3):
        db.insert("s", [{**GOOD, "v": big}] * 5 + [{**GOOD, "k": "low", "v": small}] * 5)
        db.drain()
    rows = {row["k"]: row for row in db.query("SELECT * FROM sums").rows()}
    assert rows["a"]["total"] == 15 * big
    assert rows["low"]["total"] == 15 * small
    assert rows["a"]["mean"] == pytest.approx(float(big))
    assert db.changes("sums").rows()[-1]["total"] in (15 * big, 15 * small)


# -- statements ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "code", "hint"),
    [
        ("CREATE STREAM t (v BIGINT) WITH (partitons = 4)", "UNKNOWN_OPTION", "partitions"),
        ("CREATE STREAM t (v BIGINT) WITH (source = 'lgo')", "UNKNOWN_SOURCE", "log"),
        ("CREATE STREAM t (v BIGINT) WITH (partitions = 0)", "BAD_OPTION", None),
        ("CREATE STREAM t (v BIGINT) WITH (partitions = 'many')", "BAD_OPTION", None),
        ("CREATE STREAM t (v BIGINT) WITH (idle_timeout = 'soon')", "BAD_OPTION", None),
        ("CREATE STREAM t (v BIGINT) WITH (max_ahead = '-1 day')", "BAD_OPTION", None),
        ("CREATE STREAM t (v BIGINT) WITH (key = 'w')", "UNKNOWN_COLUMN", "v"),
        ("CREATE STREAM t (v BIGINT) WITH (source = 'files', format = 'json')", "MISSING_OPTION", None),
        ("CREATE STREAM t (v BIGINT) WITH (source = 'files', path = '/x', format = 'xml')", "BAD_OPTION", None),
        ("CREATE STREAM t (v BIGINT) WITH (source = 'datagen')", "BAD_OPTION", "rate"),
        ("CREATE STREAM t (v BIGINT, v STRING)", None, None),
        ("CREATE STREAM t ()", None, None),
        ("CREATE STREAM t (v BIGNIT)", None, None),
        ("CREATE STREAM t (v BIGINT, WATERMARK FOR w AS w - INTERVAL 1 SECOND)", None, None),
        ("CREATE STREAM t (v BIGINT, WATERMARK FOR v AS v - INTERVAL 1 SECOND)", None, None),
        ("CREATE STREAM s (v BIGINT)", "ALREADY_EXISTS", None),
        ("CREATE STREAM S (v BIGINT)", "ALREADY_EXISTS", None),
        ("CREATE STREAM ids (v BIGINT)", "ALREADY_EXISTS", None),
        ("CREATE MATERIALIZED VIEW ids AS SELECT id FROM s", "ALREADY_EXISTS", None),
        ("CREATE MATERIALIZED VIEW s AS SELECT id FROM s", "ALREADY_EXISTS", None),
        ("CREATE STREAM s__late (v BIGINT)", "RESERVED_NAME", None),
        ("CREATE MATERIALIZED VIEW w AS SELECT idd FROM s", "UNKNOWN_COLUMN", "id"),
        ("CREATE MATERIALIZED VIEW w AS SELECT id FROM t", "UNKNOWN_RELATION", None),
        ("CREATE MATERIALIZED VIEW w AS SELECT id, id FROM s", "DUPLICATE_COLUMN", None),
        ("CREATE MATERIALIZED VIEW w AS SELECT k, id, count(*) AS n FROM s GROUP BY k", "NOT_GROUPED", None),
        ("CREATE MATERIALIZED VIEW w AS SELECT sum(k) AS n FROM s", None, None),
        ("CREATE MATERIALIZED VIEW w AS SELECT k + ts AS n FROM s", None, None),
        ("CREATE MATERIALIZED VIEW w AS SELECT nofunction(k) AS n FROM s", None, None),
        ("CREATE MATERIALIZED VIEW w WITH (retian = '1 day') AS SELECT id FROM s", "UNKNOWN_OPTION", "retain"),
        ("CREATE MATERIALIZED VIEW w AS SELECT k FROM s EMIT ON WATERMARK", None, None),
        ("DROP STREAM s", "IN_USE", "drop the views"),
        ("DROP STREAM ids", "UNKNOWN_STREAM", None),
        ("DROP MATERIALIZED VIEW nothing", "UNKNOWN_VIEW", None),
        ("SELECT * FROM s", "STREAM_NOT_READABLE", "view"),
        ("SELECT * FROM idz", "UNKNOWN_RELATION", "ids"),
        ("SELECT nothing FROM ids", None, None),
        ("SELEC 1", None, None),
        ("SELECT FROM WHERE", None, None),
        ("CREATE MATERIALIZED VIEW", None, None),
        ("SELECT 'unclosed", None, None),
        ("", None, None),
    ],
    ids=lambda value: str(value)[:70],
)
def test_wrong_statements(connect: Connect, sql: str, code: str | None, hint: str | None) -> None:
    db = connect()
    create(db)
    if not sql:
        assert db.sql(sql) is None
        return
    error = refused(lambda: db.sql(sql))
    if code is not None:
        assert error.code == code
    if hint is not None:
        assert hint in (error.hint or "")
    db.insert("s", [GOOD])
    db.drain()
    assert ids(db) == [1]


@pytest.mark.parametrize(
    "window",
    [
        "TUMBLE(s, ts, INTERVAL 0 SECONDS)",
        "TUMBLE(s, ts, INTERVAL '-1' SECOND)",
        "TUMBLE(s, ts, INTERVAL -10 SECONDS)",
        "TUMBLE(s, ts, 10)",
        "TUMBLE(s, ts)",
        "TUMBLE(s, INTERVAL 10 SECONDS)",
        "TUMBLE(s, v, INTERVAL 10 SECONDS)",
        "TUMBLE(s, nothing, INTERVAL 10 SECONDS)",
        "TUMBLE(nothing, ts, INTERVAL 10 SECONDS)",
        "TUMBLE(s, ts, INTERVAL 1 MONTH)",
        "HOP(s, ts, INTERVAL 0 SECONDS, INTERVAL 10 SECONDS)",
        "HOP(s, ts, INTERVAL 2 SECONDS, INTERVAL 0 SECONDS)",
        "HOP(s, ts, INTERVAL '-2' SECONDS, INTERVAL 10 SECONDS)",
        "HOP(s, ts, INTERVAL 2 SECONDS)",
    ],
)
def test_windows_that_cannot_be(connect: Connect, window: str) -> None:
    db = connect()
    create(db)
    refused(
        lambda: db.sql(
            f"CREATE MATERIALIZED VIEW w AS SELECT window_start, count(*) AS n FROM {window} GROUP BY window_start"
        )
    )
    assert [row["name"] for row in db.sql("SHOW VIEWS").rows()] == ["ids"]  # type: ignore[union-attr]


def test_a_failed_script_keeps_what_came_before(connect: Connect) -> None:
    db = connect()
    error = refused(lambda: db.sql("CREATE STREAM a (v BIGINT);\nCREATE STREAM b (v BIGNIT);\nCREATE STREAM c (v INT)"))
    assert error.position is not None
    assert error.position.line == 2
    names = {row["name"] for row in db.sql("SHOW STREAMS").rows()}  # type: ignore[union-attr]
    assert names in ({"a"}, set()), "either up to the error, or nothing"


# -- lifecycle -------------------------------------------------------------------------------------


def test_a_view_dropped_while_the_engine_runs(connect: Connect) -> None:
    db = connect()
    create(db)
    db.start()
    stop = threading.Event()
    failures: list[BaseException] = []

    def produce() -> None:
        number = 0
        while not stop.is_set():
            try:
                db.insert("s", [{**GOOD, "id": number + n} for n in range(20)])
            except BaseException as error:
                failures.append(error)
                return
            number += 20
            time.sleep(0.005)

    producer = threading.Thread(target=produce)
    producer.start()
    try:
        for round_ in range(4):
            db.sql(f"CREATE MATERIALIZED VIEW passing AS SELECT k, count(*) AS n, {round_} AS r FROM s GROUP BY k")
            subscription = db.subscribe("passing")
            next(subscription)
            db.sql("DROP MATERIALIZED VIEW passing")
            assert refused(lambda: db.query("SELECT * FROM passing")).code == "UNKNOWN_RELATION"
            # A subscriber of a view that is gone is told so, or comes to an end; it does not hang.
            with contextlib.suppress(ms.MillstreamError):
                for _ in subscription:
                    pass
    finally:
        stop.set()
        producer.join()
    db.stop()
    assert failures == []
    db.drain()
    logged = sum(parts_of(db).log.topic("s").end_offsets().values())
    assert len(ids(db)) == logged


def test_a_closed_database(connect: Connect) -> None:
    db = connect()
    create(db)
    db.close()
    for action in (
        lambda: db.sql("SHOW STREAMS"),
        lambda: db.query("SELECT 1"),
        lambda: db.insert("s", [GOOD]),
        lambda: db.insert_lines("s", ["{}"]),
        lambda: db.changes("ids"),
        lambda: db.subscribe("ids"),
        db.drain,
        db.start,
    ):
        assert refused(action).code == "CLOSED"
    db.close()
    db.stop()


def test_query_takes_one_select(connect: Connect) -> None:
    db = connect()
    for text in ("SELECT 1 AS a; SELECT 2 AS b", "CREATE STREAM t (v BIGINT)", "SHOW STREAMS", ""):
        assert refused(partial(db.query, text)).code == "NOT_A_QUERY"


def test_a_data_directory_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    refused(lambda: ms.connect(tmp_path / "file"))


@pytest.mark.parametrize(
    "expression",
    ["1 / 0", "id + 1 div 0", "cast('x' AS INT)", "element_at(array(1), 5)", "make_date(2025, 13, 1)"],
)
def test_a_view_that_fails_on_every_row_is_refused(connect: Connect, expression: str) -> None:
    db = connect()
    db.sql("CREATE STREAM q (id BIGINT); CREATE MATERIALIZED VIEW good AS SELECT count(*) AS n FROM q")
    with pytest.raises(ms.MillstreamError) as caught:
        db.sql(f"CREATE MATERIALIZED VIEW bad AS SELECT id, {expression} AS x FROM q")
    assert caught.value.code == "INVALID_EXPRESSION"
    db.insert("q", [{"id": 1}])
    db.drain()
    assert db.query("SELECT n FROM good").rows() == [{"n": 1}]


@pytest.mark.parametrize("condition", ["amount > 'abc'", "id = 1 AND day >= '2025-13-45'", "amount IN (1, 'x')"])
def test_a_condition_that_can_never_be_computed_is_refused(connect: Connect, condition: str) -> None:
    db = connect()
    db.sql("CREATE STREAM q (id BIGINT, amount DOUBLE, day DATE)")
    error = refused(lambda: db.sql(f"CREATE MATERIALIZED VIEW bad AS SELECT id FROM q WHERE {condition}"))
    assert error.code == "INVALID_EXPRESSION"
    db.sql("CREATE MATERIALIZED VIEW good AS SELECT id FROM q WHERE amount > '1.5' AND day >= '2025-01-01'")


def test_what_is_probably_not_meant_gets_a_warning(connect: Connect, tmp_path: Path) -> None:
    db = connect()
    missing = tmp_path / "nowhere"
    with pytest.warns(ms.MillstreamWarning, match="CREATE STREAM f: there is no .*nowhere.* yet"):
        db.sql(f"CREATE STREAM f (a INT) WITH (source = 'files', path = '{missing}', format = 'csv')")
    db.sql("CREATE STREAM q (id BIGINT)")
    with pytest.warns(ms.MillstreamWarning, match="CREATE MATERIALIZED VIEW v: the rows of a view have no order"):
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT id, count(*) AS n FROM q GROUP BY id ORDER BY n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        db.sql("CREATE MATERIALIZED VIEW w AS SELECT id, count(*) AS n FROM q GROUP BY id ORDER BY n LIMIT 3")


def test_what_fails_on_some_rows_only_is_no_reason_to_refuse_a_view(connect: Connect) -> None:
    db = connect()
    db.sql("CREATE STREAM q (id BIGINT)")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT id, CASE WHEN id > 1 THEN 1 / 0 ELSE 1 / id END AS x FROM q")
    db.insert("q", [{"id": 1}, {"id": 2}, {"id": 0}])
    db.drain()
    assert db.query("SELECT id, x FROM v").rows() == [{"id": 1, "x": 1.0}]
    assert db.query("SELECT count(*) AS n FROM q__dead").rows() == [{"n": 2}]


def test_what_has_no_type_is_refused(connect: Connect) -> None:
    db = connect()
    db.sql("CREATE STREAM q (id BIGINT)")
    with pytest.raises(ms.MillstreamError):
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT array_compact(NULL) AS x FROM q")


@pytest.mark.parametrize(
    "rows",
    [
        [{"v": 1, "V": 2}],
        pa.table({"v": [1], "V": [2]}),
        pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["v", "v"]),
        pd.DataFrame([[1, 2]], columns=["v", "v"]),
        pd.DataFrame({"k": ["a", 1]}),
        pd.DataFrame({"v": [1j]}),
        pd.DataFrame({"t": pd.period_range("2024-01", periods=1, freq="M")}),
        [{"tags": "abc"}],
    ],
)
def test_rows_of_which_something_would_be_lost_are_refused(connect: Connect, rows: Any) -> None:
    db = connect()
    db.sql("CREATE STREAM s (v BIGINT, k STRING, t TIMESTAMP, tags ARRAY<STRING>)")
    with pytest.raises(ms.MillstreamError) as caught:
        db.insert("s", rows)
    assert caught.value.code in {"BAD_ROWS", "TYPE_MISMATCH"}


@pytest.mark.parametrize(
    "misuse",
    [
        lambda db: db.insert_lines("s", "abc"),
        lambda db: db.insert_lines("s", [5]),
        lambda db: db.insert("s", [{"v": 1}], message_ids="a"),
        lambda db: db.insert("s", [{"v": 1}], message_ids=[5]),
        lambda db: db.changes("w", since_epoch="x"),
        lambda db: db.subscribe("w", from_epoch="x"),
        lambda db: db.sql("EXPLAIN SELECT * FROM nothing"),
        lambda db: db.sql("EXPLAIN SELECT nothing FROM w"),
        lambda db: db.sql("EXPLAIN SELECT getenv('x') FROM w"),
    ],
)
def test_misuse_is_a_millstream_error(connect: Connect, misuse: Callable[[ms.Database], object]) -> None:
    db = connect()
    db.sql("CREATE STREAM s (v BIGINT); CREATE MATERIALIZED VIEW w AS SELECT count(*) AS n FROM s")
    with pytest.raises(ms.MillstreamError):
        misuse(db)


@pytest.mark.parametrize(
    "make",
    [
        lambda: ms.EngineSettings(kernel=untyped("bogus")),
        lambda: ms.EngineSettings(target_latency="soon"),
        lambda: ms.EngineSettings(max_epoch_rows=5),
        lambda: ms.EngineSettings(store_memory="lots"),
        lambda: ms.EngineSettings(**untyped({"memory": "1GB"})),
        lambda: ms.SparkSettings(driver_memory="lots"),
        lambda: ms.connect(untyped(None)),
        lambda: ms.connect("/tmp/x", clock=untyped(5)),
        lambda: ms.connect("/tmp/x", settings=untyped({})),
    ],
)
def test_bad_settings_are_refused(make: Callable[[], object]) -> None:
    with pytest.raises(ms.MillstreamError) as caught:
        make()
    assert caught.value.code in {"BAD_SETTING", "UNKNOWN_SETTING"}


def test_a_bad_setting_of_the_environment_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLSTREAM_KERNEL", "bogus")
    with pytest.raises(ms.MillstreamError) as caught:
        ms.EngineSettings()
    assert "MILLSTREAM_KERNEL" in (caught.value.hint or "")
