"""Upkeep of the log: what may go goes, and what somebody has still to read stays."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

import millstream as ms
from millstream.engine.surface.database import Database
from millstream.log import Retained, Topic
from tests.parts import parts_of

HOUR = 3_600


def oldest(db: Database, topic: str = "s") -> int:
    return int(parts_of(db).log.topic(topic).start_offsets()[0])


@pytest.fixture
def old(db: Database, clock: ms.ManualClock) -> Database:
    """A stream that keeps an hour, with three rows that are older and one that is not."""
    db.sql("CREATE STREAM s (k BIGINT) WITH (retention = '1 hour')")
    for key in range(3):
        db.insert("s", [{"k": key}])
        clock.advance(2 * HOUR)
    db.insert("s", [{"k": 3}])
    return db


def test_rows_that_nobody_has_read_are_kept(old: Database) -> None:
    old.maintain()
    assert oldest(old) == 0


def test_rows_that_were_read_go_when_they_are_old(old: Database) -> None:
    old.drain()
    old.maintain()
    assert oldest(old) == 3


def test_a_view_that_reads_history_keeps_its_rows(old: Database) -> None:
    old.drain()
    old.sql("CREATE MATERIALIZED VIEW v AS SELECT k FROM s")
    old.maintain()
    assert oldest(old) == 0
    old.drain()
    assert len(old.query("SELECT k FROM v").rows()) == 4
    old.maintain()
    assert oldest(old) == 3


def test_of_two_streams_the_slower_one_decides(old: Database) -> None:
    old.drain()
    old.sql("CREATE STREAM t (k BIGINT) WITH (topic = 's', retention = '1 hour')")
    old.maintain()
    assert oldest(old) == 0
    old.drain()
    old.maintain()
    assert oldest(old) == 3


def test_a_table_loses_changes_that_others_replaced(db: Database, clock: ms.ManualClock) -> None:
    db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v BIGINT)")
    for value in range(5):
        db.insert("t", [{"id": 1, "v": value}])
        clock.advance(48 * HOUR)
    db.insert("t", [{"id": 2, "v": 0}])
    db.drain()
    topic = parts_of(db).log.topic("t")
    assert sum(batch.num_rows for batch in topic.read(0, 0)) == 6
    db.maintain()
    assert sum(batch.num_rows for batch in topic.read(0, oldest(db, "t"))) < 6
    assert db.query("SELECT id, v FROM t ORDER BY id").rows() == [{"id": 1, "v": 4}, {"id": 2, "v": 0}]


def test_a_topic_that_is_dropped_meanwhile_is_left_out(old: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        old.sql(f"CREATE STREAM {name} (k BIGINT) WITH (partitions = 2, retention = '1 hour')")
    old.drain()
    retain = Topic.retain

    def drop_others(topic: Topic, keep_from: Mapping[int, int] | None = None) -> Retained:
        for name in {"s", "a", "b"} - {topic.name}:
            old.sql(f"DROP STREAM IF EXISTS {name}")
        return retain(topic, keep_from=keep_from)

    monkeypatch.setattr(Topic, "retain", drop_others)
    old.maintain()
    assert len(parts_of(old).catalog.streams()) == 1
