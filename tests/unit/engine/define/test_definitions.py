"""Making and dropping streams, tables and views, without a JVM."""

from __future__ import annotations

import pytest

from millstream.engine.surface.database import Database
from millstream.model.errors import MillstreamError
from millstream.sql import render
from tests.inprocess_compute import InProcessCompute
from tests.parts import parts_of
from tests.unit.engine.conftest import Open

STREAM = "CREATE STREAM s (k BIGINT, v BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS)"


def names(db: Database) -> list[str]:
    return [entry.name for entry in parts_of(db).catalog]


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("CREATE STREAM t (k BIGINT) WITH (source = 'nowhere')", "UNKNOWN_SOURCE"),
        ("CREATE STREAM t (k BIGINT) WITH (key = 'x')", "UNKNOWN_COLUMN"),
        ("CREATE STREAM t (k BIGINT) WITH (no_such_option = '1')", "UNKNOWN_OPTION"),
        ("CREATE STREAM s (k BIGINT)", "ALREADY_EXISTS"),
        ("CREATE MATERIALIZED VIEW v AS SELECT nothing FROM s", "UNKNOWN_COLUMN"),
        ("CREATE MATERIALIZED VIEW v AS SELECT k FROM nowhere", "UNKNOWN_RELATION"),
        ("DROP STREAM nowhere", "UNKNOWN_STREAM"),
        ("DROP MATERIALIZED VIEW s", "UNKNOWN_VIEW"),
    ],
)
def test_what_is_refused_leaves_nothing(db: Database, compute: InProcessCompute, statement: str, code: str) -> None:
    db.sql(STREAM)
    with pytest.raises(MillstreamError) as refused:
        db.sql(statement)
    assert refused.value.code == code
    assert names(db) == ["s"]
    assert list(parts_of(db).log.topics()) == ["s"]
    assert compute.forms == {}


def test_a_view_is_typed_when_it_is_created(db: Database, compute: InProcessCompute) -> None:
    db.sql(STREAM)
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT k, count(*) AS n, avg(v) AS mean FROM s GROUP BY k")
    assert [(field.name, str(field.type)) for field in parts_of(db).store.columns("v")] == [
        ("k", "int64"),
        ("n", "int64"),
        ("mean", "double"),
    ]
    assert [view.name for _, view in compute.forms] == ["v"]


def test_types_are_asked_for_once(db: Database, compute: InProcessCompute) -> None:
    db.sql(STREAM)
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT k, max(v + 1) AS m FROM s GROUP BY k")
    asked = compute.typed
    db.sql("CREATE MATERIALIZED VIEW w AS SELECT k, max(v + 1) AS m FROM s GROUP BY k")
    assert compute.typed == asked


def test_what_a_view_reads_cannot_be_dropped(db: Database) -> None:
    db.sql(f"{STREAM}; CREATE MATERIALIZED VIEW v AS SELECT k, v FROM s; CREATE MATERIALIZED VIEW w AS SELECT v FROM v")
    for statement in ("DROP STREAM s", "DROP MATERIALIZED VIEW v"):
        with pytest.raises(MillstreamError) as refused:
            db.sql(statement)
        assert refused.value.code == "IN_USE"
    for statement in ("DROP MATERIALIZED VIEW w", "DROP MATERIALIZED VIEW v", "DROP STREAM s"):
        db.sql(statement)
    assert names(db) == []


def test_what_is_dropped_is_released(db: Database, compute: InProcessCompute) -> None:
    db.sql(f"{STREAM}; CREATE MATERIALIZED VIEW v AS SELECT k FROM s; CREATE MATERIALIZED VIEW w AS SELECT v FROM s")
    db.sql("DROP MATERIALIZED VIEW v")
    assert [view.name for _, view in compute.forms] == ["w"]


def test_a_topic_goes_with_its_last_stream(db: Database) -> None:
    db.sql("CREATE STREAM a (k BIGINT) WITH (topic = 't'); CREATE STREAM b (k BIGINT) WITH (topic = 't')")
    db.sql("DROP STREAM a")
    assert "t" in parts_of(db).log.topics()
    db.sql("DROP STREAM b")
    assert "t" not in parts_of(db).log.topics()


def test_definitions_are_there_after_a_restart(open_database: Open) -> None:
    db = open_database()
    db.sql(f"{STREAM}; CREATE TABLE t (id BIGINT PRIMARY KEY); CREATE MATERIALIZED VIEW v AS SELECT k FROM s")
    before = [render(entry.statement) for entry in parts_of(db).catalog]
    db.close()
    db = open_database()
    assert [render(entry.statement) for entry in parts_of(db).catalog] == before
    db.insert("s", [{"k": 1, "v": 2, "ts": "2024-01-01 00:00:00"}])
    db.drain()
    assert db.query("SELECT k FROM v").rows() == [{"k": 1}]


def test_reading_asks_for_no_types_after_a_restart(open_database: Open) -> None:
    db = open_database()
    db.sql(f"{STREAM}; CREATE MATERIALIZED VIEW v AS SELECT k, count(*) AS n FROM s GROUP BY k")
    db.close()
    compute = InProcessCompute()
    db = open_database(compute=compute)
    assert db.query("SELECT * FROM v").rows() == []
    assert (compute.typed, compute.forms) == (0, {})
