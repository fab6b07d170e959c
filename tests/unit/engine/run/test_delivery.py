"""Delivery on a log and a store that is made up: no Spark."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from millstream.engine.define.catalog import Catalog, SinkEntry, ViewEntry
from millstream.engine.define.sinks import Sinks
from millstream.engine.run.delivery import Delivery, by_epoch
from millstream.log import Log
from millstream.model.errors import MillstreamError
from millstream.model.time import ManualClock
from millstream.sql import parse_statement, statements
from millstream.sql.statements import CreateView, Drop
from millstream.store.commands import Acknowledge, Command, CreateSink, DropSink


@dataclass
class Positions:
    noted: dict[str, tuple[int, str]] = field(default_factory=dict)

    def acknowledge(self, name: str, epoch: int, target: str) -> None:
        self.noted[name] = (epoch, target)


class Changelog:
    """What delivery asks of a store: each epoch has some changes of `v`."""

    def __init__(self) -> None:
        self.sinks = Positions()
        self._epochs: list[list[int]] = []

    def commit(self, *ns: int) -> None:
        self._epochs.append(list(ns))

    def apply(self, command: Command) -> int:
        match command:
            case CreateSink():
                self.sinks.noted[command.name] = (command.epoch, command.target)
            case Acknowledge(name, epoch, target):
                self.sinks.acknowledge(name, epoch, target)
            case DropSink(name):
                del self.sinks.noted[name]
        return self.last_epoch()

    def sink_position(self, sink: str) -> tuple[int, str]:
        return self.sinks.noted[sink]

    def last_epoch(self) -> int:
        return len(self._epochs)

    def columns(self, relation: str) -> pa.Schema:
        return pa.schema([("n", pa.int64())])

    def changes(self, view: str, since: int, *_: Any, **__: Any) -> pa.Table:
        rows = [(e, n) for e, ns in enumerate(self._epochs, 1) if e > since for n in ns]
        return pa.table({"epoch": pa.array([e for e, _ in rows], pa.int64()), "n": pa.array([n for _, n in rows])})


class Bench:
    def __init__(self, log: Log) -> None:
        self.log = log
        self.store = Changelog()
        self.open()

    def open(self) -> None:
        """As after a restart: only the log and the store are what they were."""
        self.catalog = Catalog()
        view = parse_statement("CREATE MATERIALIZED VIEW v AS SELECT 1 AS n")
        assert isinstance(view, CreateView)
        self.catalog.add(ViewEntry(view, "1"))
        self.committed = threading.Condition()
        store: Any = self.store
        self.sinks = Sinks(self.catalog, store, self.log)
        self.delivery = Delivery(self.sinks, store, self.committed)

    def create(self, text: str) -> SinkEntry:
        entry = self.sinks.create(_sink(text), 0)
        assert entry is not None
        self.delivery.add(entry)
        return entry

    def commit(self, *ns: int) -> None:
        self.store.commit(*ns)
        with self.committed:
            self.committed.notify_all()

    def failures(self) -> dict[str, str | None]:
        sinks = self.catalog.sinks.values()
        return {sink.name: None if sink.failure is None else sink.failure.code for sink in sinks}

    def landed(self, topic: str = "t") -> list[int]:
        if topic not in self.log.topics():
            return []
        return [row["n"] for batch in self.log.topic(topic).read(0, 0) for row in batch.to_pylist()]


def _sink(text: str) -> statements.CreateSink:
    create = parse_statement(text)
    assert isinstance(create, statements.CreateSink)
    return create


def _until(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    log = Log(tmp_path / "log", ManualClock(0))
    bench = Bench(log)
    yield bench
    bench.delivery.stop()
    bench.delivery.close()
    log.close()


def test_epochs_are_delivered_in_order_and_once(bench: Bench) -> None:
    bench.commit(1, 2)
    entry = bench.create("CREATE SINK s FROM v INTO TOPIC t")
    bench.delivery.drain()
    bench.commit()
    bench.commit(3)
    bench.delivery.drain()
    bench.delivery.drain()
    assert bench.landed() == [1, 2, 3]
    assert bench.store.sinks.noted == {"s": (3, "3")}
    assert (entry.reached, entry.failure) == (3, None)


def test_a_sink_may_begin_with_the_next_epoch(bench: Bench) -> None:
    bench.commit(1)
    bench.create("CREATE SINK s FROM v INTO TOPIC t WITH (start = 'latest')")
    bench.commit(2)
    bench.delivery.drain()
    assert bench.landed() == [2]


def test_a_restart_goes_on_where_the_target_is(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    create = "CREATE SINK s FROM v INTO TOPIC t"
    bench.create(create)
    for n in range(5):
        bench.commit(n, n)
    with monkeypatch.context() as patch:
        patch.setattr(bench.store.sinks, "acknowledge", _failing)
        bench.delivery.drain()
    assert bench.store.sinks.noted == {"s": (-1, "0")}
    bench.open()
    bench.sinks.restore(_sink(create))
    bench.commit(9)
    bench.delivery.drain()
    assert bench.landed() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 9]
    assert bench.store.sinks.noted == {"s": (6, "11")}


def test_a_failing_sink_stops_no_other(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bad, good = bench.create("CREATE SINK a FROM v INTO TOPIC bad"), bench.create("CREATE SINK b FROM v INTO TOPIC t")
    bench.commit(1)
    with monkeypatch.context() as patch:
        assert bad.sink is not None
        patch.setattr(bad.sink, "deliver", _failing)
        bench.delivery.drain()
        assert bad.failure is not None
        assert (good.failure, bench.landed("t"), bench.landed("bad")) == (None, [1], [])
    bench.delivery.drain()
    assert (bench.failures(), bench.landed("bad")) == ({"a": None, "b": None}, [1])


def test_what_is_committed_while_running_is_delivered(bench: Bench) -> None:
    bench.create("CREATE SINK a FROM v INTO TOPIC t")
    bench.delivery.start()
    bench.commit(1)
    _until(lambda: bench.landed("t") == [1])
    late = bench.create("CREATE SINK b FROM v INTO TOPIC u")
    _until(lambda: bench.landed("u") == [1])
    bench.delivery.remove(late)
    bench.commit(2)
    bench.delivery.stop()
    assert bench.landed("t") == [1, 2]
    assert bench.landed("u") == [1]
    assert bench.store.sinks.noted["a"] == (2, "2"), "what was delivered is acknowledged when it stops"


def test_a_running_sink_recovers(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = bench.create("CREATE SINK a FROM v INTO TOPIC t")
    with monkeypatch.context() as patch:
        assert entry.sink is not None
        patch.setattr(entry.sink, "deliver", _failing)
        patch.setattr(entry.sink, "close", _failing)
        bench.delivery.start()
        bench.commit(1)
        _until(lambda: entry.failure is not None)
    _until(lambda: bench.landed("t") == [1] and entry.failure is None)


def test_sinks_are_found_and_dropped(bench: Bench) -> None:
    bench.create("CREATE SINK s FROM V INTO TOPIC t")
    assert [sink.name for sink in bench.catalog.sinks_of("v")] == ["s"]
    assert bench.catalog.written_topics() == {"t"}
    assert bench.sinks.create(_sink("CREATE SINK IF NOT EXISTS S FROM v INTO TOPIC t"), 0) is None
    with pytest.raises(MillstreamError, match="already"):
        bench.sinks.create(_sink("CREATE SINK S FROM v INTO TOPIC t"), 0)
    entry = bench.sinks.find(Drop("sink", "S"))
    assert entry is not None
    bench.delivery.remove(entry)
    bench.sinks.drop(entry)
    bench.commit(1)
    bench.delivery.deliver(entry)
    assert (bench.landed(), bench.store.sinks.noted, bench.catalog.sinks) == ([], {}, {})
    assert bench.sinks.find(Drop("sink", "s", if_exists=True)) is None
    with pytest.raises(MillstreamError) as caught:
        bench.sinks.find(Drop("sink", "s"))
    assert caught.value.code == "UNKNOWN_SINK"


def test_a_refused_sink_leaves_nothing(bench: Bench) -> None:
    for text, code in (
        ("CREATE SINK s FROM nothing INTO TOPIC t", "UNKNOWN_VIEW"),
        ("CREATE SINK s FROM v", "MISSING_OPTION"),
        ("CREATE SINK s FROM v WITH (connector = 'topc')", "UNKNOWN_CONNECTOR"),
        ("CREATE SINK s FROM v INTO TOPIC t WITH (start = 'now')", "BAD_OPTION"),
    ):
        with pytest.raises(MillstreamError) as caught:
            bench.sinks.create(_sink(text), 0)
        assert caught.value.code == code
    assert (bench.catalog.sinks, bench.store.sinks.noted, tuple(bench.log.topics())) == ({}, {}, ())


def test_changes_by_epoch() -> None:
    changes = pa.table({"epoch": pa.array([1, 1, 4], pa.int64()), "n": [1, 2, 3]})
    assert [(epoch, rows.column("n").to_pylist()) for epoch, rows in by_epoch(changes)] == [(1, [1, 2]), (4, [3])]
    assert list(by_epoch(changes.slice(0, 0))) == []


def _failing(*_: object) -> Any:
    raise MillstreamError("DISK_FULL", "no space is left")
