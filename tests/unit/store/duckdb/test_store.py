"""The store on its own: deltas in as Arrow, no Spark."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from millstream.model.errors import MillstreamError
from millstream.model.lateness import Lateness
from millstream.model.progress import BEGINNING, Progress
from millstream.plan.nodes import AggregateView, Stream, ViewPlan
from millstream.plan.planner import plan_view
from millstream.sql import parse_statement
from millstream.sql.statements import CreateStream, CreateView, Select
from millstream.store import commands
from millstream.store.commands import Commit, Retain, StreamPart, ViewPart
from millstream.store.duckdb.store import DuckDBStore
from millstream.store.protocol import UnknownColumnError

_CREATE = parse_statement(
    "CREATE STREAM bids (auction BIGINT, price BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL 4 SECONDS)"
)
assert isinstance(_CREATE, CreateStream)
STREAM = Stream(_CREATE.name, _CREATE.schema, _CREATE.watermark, _CREATE.correction)
SECOND = 1_000_000
DELTA = pa.schema(
    [
        ("__k0", pa.int64()),
        ("__pane", pa.int64()),
        ("__rows", pa.int64()),
        ("__a0", pa.int64()),
        ("__a1", pa.int64()),
    ]
)


def view(emit: str = "", options: str = "") -> AggregateView:
    create = parse_statement(
        f"CREATE MATERIALIZED VIEW v {options} AS SELECT window_start, auction, count(*) AS n, max(price) AS top "
        f"FROM TUMBLE(bids, ts, INTERVAL 10 SECONDS) GROUP BY window_start, auction {emit}"
    )
    assert isinstance(create, CreateView)
    planned = plan_view(create, lambda _: STREAM, lambda _, sqls: [pa.int64() for _ in sqls])
    assert isinstance(planned, AggregateView)
    return planned


def delta(*rows: tuple[int | None, int, int, int]) -> pa.Table:
    """(auction, window start in seconds, rows, highest price)"""
    return pa.Table.from_pylist(
        [
            {"__k0": key, "__pane": start * SECOND, "__rows": count, "__a0": count, "__a1": top}
            for key, start, count, top in rows
        ],
        schema=DELTA,
    )


class Harness:
    def __init__(self, path: Path, planned: AggregateView) -> None:
        self.path = path
        self.store = DuckDBStore(path / "store.duckdb", "500MB")
        self.view = planned
        self.watermark = BEGINNING
        self.offset = 0
        if not self.store.statements():
            self.store.apply(commands.CreateStream(STREAM, "CREATE STREAM …", 0))
            self.store.apply(commands.CreateView(ViewPlan((planned,)), {planned.name: DELTA}, "CREATE VIEW …", 0))

    def retain(self, now: int) -> None:
        self.store.apply(Retain(now * SECOND, [self.view], [STREAM]))
        self.store.settle()

    def epoch(self, rows: pa.Table | None, watermark: int | None = None, now: int = 0, *, repeats: bool = False) -> int:
        before = self.watermark
        self.watermark = before if watermark is None else watermark * SECOND
        self.offset += rows.num_rows if rows is not None else 0
        used = sum(rows.column("__rows").to_pylist()) if rows is not None else 0
        progress = Progress({0: self.offset}, {0: self.watermark}, {0: now}, self.watermark)
        return self.store.apply(
            Commit(
                now * SECOND,
                [StreamPart(STREAM, progress, rows=used)],
                [ViewPart(self.view, rows, before, self.watermark, repeats, used=used)],
            )
        )

    def rows(self) -> list[tuple[object, ...]]:
        table = self.store.query("SELECT epoch_us(window_start) // 1000000 AS w, auction, n, top FROM v ORDER BY ALL")
        return [tuple(row.values()) for row in table.to_pylist()]

    def changes(self, since: int = 0) -> list[tuple[object, ...]]:
        return [
            (row["op"], row["pane"], row["pane_index"], row["final"], row["auction"], row["n"])
            for row in self.store.changes("v", since or -1).to_pylist()
        ]

    def reopen(self) -> None:
        self.store.close()
        self.store = DuckDBStore(self.path / "store.duckdb", "500MB")


@pytest.fixture
def harness(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Harness]:
    built = Harness(tmp_path, view(*getattr(request, "param", ())))
    yield built
    built.store.close()


def emitting(*arguments: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("harness", [arguments], indirect=True)


def test_deltas_add_up_and_null_is_a_key(harness: Harness) -> None:
    harness.epoch(delta((1, 0, 2, 10), (None, 0, 1, 5)))
    harness.epoch(delta((1, 0, 3, 7), (None, 0, 1, 6), (2, 10, 1, 1)))
    assert harness.rows() == [(0, 1, 5, 10), (0, None, 2, 6), (10, 2, 1, 1)]


def test_only_changed_rows_are_published(harness: Harness) -> None:
    harness.epoch(delta((1, 0, 2, 10), (2, 0, 1, 5)))
    epoch = harness.epoch(delta((2, 0, 1, 1)))
    assert harness.changes(epoch - 1) == [("upsert", "early", 1, False, 2, 2)]


def test_null_is_found_whatever_comes_with_it(harness: Harness) -> None:
    """Columns with and without NULL are looked up in different ways."""
    harness.epoch(delta((None, 0, 1, 5)))
    harness.epoch(delta((1, 0, 1, 6)))
    harness.epoch(delta((None, 0, 2, 7)))
    harness.epoch(delta((1, 0, 2, 8), (None, 0, 4, 9)))
    assert harness.rows() == [(0, 1, 3, 8), (0, None, 7, 9)]


EMITS = ["", "EMIT ON EPOCH RETRACTING", "EMIT EVERY 2 ROWS", "EMIT EVERY 1 ROW DISCARDING"]


@pytest.mark.parametrize("emit", EMITS)
@pytest.mark.parametrize("many", [2, 1000])
def test_a_group_may_come_in_pieces(emit: str, many: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("millstream.store.duckdb.writing.MANY", many)
    pieces = delta((1, 0, 2, 10), (None, 0, 1, 3)), delta((2, 0, 1, 1), (1, 0, 3, 7), (None, 0, 1, 4))
    whole = delta((1, 0, 5, 10), (None, 0, 2, 4), (2, 0, 1, 1))
    seen = []
    for name, rows in (("pieces", pa.concat_tables(pieces)), ("whole", whole)):
        (tmp_path / name).mkdir()
        harness = Harness(tmp_path / name, view(emit))
        for _ in range(2):
            harness.epoch(rows, repeats=name == "pieces")
        seen.append((harness.rows(), sorted(harness.changes(), key=repr)))
        harness.store.close()
    assert seen[0] == seen[1]
    assert seen[0][1]


@pytest.mark.parametrize("emit", ["", "EMIT ON EPOCH RETRACTING"])
def test_many_groups_are_kept_as_few_are(emit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many groups an epoch must have to be merged step by step."""
    groups = [(auction, start) for auction in range(4) for start in (0, 10, 20)]
    seen = []
    for number, many in enumerate([1, 3, 1000]):
        monkeypatch.setattr("millstream.store.duckdb.writing.MANY", many)
        (tmp_path / f"{number}").mkdir()
        harness, chance = Harness(tmp_path / f"{number}", view(emit)), random.Random(5)
        expected: dict[tuple[int, int], tuple[int, int]] = {}
        for _ in range(12):
            keys = chance.sample(groups, chance.randrange(6))
            rows = [(*key, chance.randrange(1, 4), chance.randrange(100)) for key in keys]
            harness.epoch(delta(*rows))
            for auction, start, count, top in rows:
                n, highest = expected.get((start, auction), (0, 0))
                expected[start, auction] = (n + count, max(highest, top))
        assert harness.rows() == sorted((*key, *values) for key, values in expected.items())
        seen.append(sorted(map(str, harness.store.changes("v", -1).to_pylist())))
        harness.store.close()
    assert seen[0] == seen[1] == seen[2]
    assert len(seen[0]) > len(groups)


@pytest.mark.parametrize("many", [3, 1000])
def test_groups_that_changed_fire_with_those_that_did_not(
    many: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some were written in the same transaction, which DuckDB must not be asked for in the same way as for others."""
    monkeypatch.setattr("millstream.store.duckdb.writing.MANY", many)
    harness, chance = Harness(tmp_path, view("EMIT EVERY 3 SECONDS")), random.Random(3)
    counted: dict[int, int] = {}
    due: dict[int, int] = {}
    shown: dict[int, int] = {}
    for now in range(60):
        rows = {auction: chance.randrange(1, 5) for auction in chance.sample(range(300), 60)}
        harness.epoch(delta(*((auction, 0, count, auction) for auction, count in rows.items())), now=now)
        for auction, count in rows.items():
            counted[auction] = counted.get(auction, 0) + count
            due.setdefault(auction, now + 3)
        for auction in [auction for auction, at in due.items() if at <= now]:
            shown[auction] = counted[auction]
            del due[auction]
        assert harness.rows() == sorted((0, auction, n, auction) for auction, n in shown.items())
    harness.store.close()


def test_everything_survives_a_restart(harness: Harness) -> None:
    harness.epoch(delta((1, 0, 2, 10)), watermark=3)
    harness.reopen()
    assert harness.store.last_epoch() == 1
    progress = harness.store.progress("bids")
    assert progress is not None
    assert (progress.offsets, progress.watermark) == ({0: 1}, 3 * SECOND)
    harness.epoch(delta((1, 0, 1, 11)))
    assert harness.rows() == [(0, 1, 3, 11)]


def test_an_epoch_is_all_or_nothing(harness: Harness) -> None:
    harness.epoch(delta((1, 0, 2, 10)))
    broken = delta((1, 0, 1, 11)).drop_columns(["__a1"])
    with pytest.raises(MillstreamError):
        harness.epoch(broken)
    assert harness.store.last_epoch() == 1
    assert harness.rows() == [(0, 1, 2, 10)]
    assert len(harness.changes()) == 1
    progress = harness.store.progress("bids")
    assert progress is not None
    assert progress.offsets == {0: 1}
    assert harness.epoch(delta((1, 0, 1, 12))) == 2
    assert harness.rows() == [(0, 1, 3, 12)]


def test_a_reader_sees_one_epoch(harness: Harness) -> None:
    harness.epoch(delta((1, 0, 2, 10)))
    reader = harness.store.cursor()
    reader.execute("BEGIN")
    assert reader.execute("SELECT sum(n) FROM v").fetchall() == [(2,)]
    harness.epoch(delta((1, 0, 5, 10), (2, 0, 1, 1)))
    assert reader.execute("SELECT sum(n) FROM v").fetchall() == [(2,)]
    reader.execute("COMMIT")
    assert reader.execute("SELECT sum(n) FROM v").fetchall() == [(8,)]


@emitting("EMIT EARLY EVERY 2 ROWS ON WATERMARK LATE EVERY 1 ROW DISCARDING ALLOWED LATENESS INTERVAL 20 SECONDS")
def test_discarded_panes_start_anew(harness: Harness) -> None:
    seen = []
    for rows, watermark in (
        (delta((1, 0, 1, 1)), None),
        (delta((1, 0, 1, 1)), None),
        (None, 10),
        (delta((1, 0, 1, 1)), 11),
        (None, 40),
    ):
        epoch = harness.epoch(rows, watermark)
        seen.append(harness.changes(epoch - 1))
    assert seen == [
        [],
        [("insert", "early", 0, False, 1, 2)],
        [("insert", "on_time", 1, False, 1, 0)],
        [("insert", "late", 2, False, 1, 1)],
        [],
    ]
    assert [row[2] for row in harness.rows()] == [0, 1, 2]


@emitting("EMIT ON WATERMARK RETRACTING ALLOWED LATENESS INTERVAL 20 SECONDS")
def test_a_correction_is_retracted_first_and_the_last_pane_is_final(harness: Harness) -> None:
    harness.epoch(delta((1, 0, 2, 5)))
    assert harness.rows() == []
    harness.epoch(None, 10)
    harness.reopen()
    harness.epoch(delta((1, 0, 1, 9)), 30)
    assert harness.changes() == [
        ("insert", "on_time", 0, False, 1, 2),
        ("retract", "late", 1, True, 1, 2),
        ("insert", "late", 1, True, 1, 3),
    ]
    assert harness.rows() == [(0, 1, 3, 9)]


@emitting("EMIT EVERY 5 SECONDS")
def test_timers_are_part_of_the_state(harness: Harness) -> None:
    harness.epoch(delta((1, 0, 2, 5)), now=100)
    assert harness.store.next_due_at([harness.view]) == 105 * SECOND
    harness.reopen()
    assert harness.store.next_due_at([harness.view]) == 105 * SECOND
    harness.epoch(None, now=105)
    assert harness.changes() == [("upsert", "early", 0, False, 1, 2)]
    assert harness.store.next_due_at([harness.view]) is None


@emitting("", "WITH (retain = '30 seconds')")
def test_what_is_too_old_is_deleted_and_the_changelog_says_so(harness: Harness) -> None:
    harness.epoch(delta((1, 0, 2, 5), (2, 20, 1, 1)), 20)
    epoch = harness.epoch(None, 45)
    assert harness.rows() == [(20, 2, 1, 1)]
    assert [change[0] for change in harness.changes(epoch - 1)] == ["delete"]


@emitting("", "WITH (changelog_retain = '1 minute')")
def test_the_changelog_is_kept_as_long_as_said(harness: Harness) -> None:
    harness.epoch(delta((1, 0, 2, 5)), now=0)
    harness.epoch(delta((1, 0, 2, 6)), now=200)
    harness.retain(now=200)
    epochs = [row["epoch"] for row in harness.store.changes("v", -1).to_pylist()]
    assert epochs == [2]
    assert harness.rows() == [(0, 1, 4, 6)]


@emitting("", "WITH (changelog_retain = '30 days')")
def test_changes_are_kept_longer_than_the_records_of_their_epochs(harness: Harness) -> None:
    day, hour = 86_400, 3_600
    for now in (0, 60, hour, 2 * day, 20 * day, 31 * day):
        harness.epoch(delta((1, 0, 1, 5)), now=now)
        harness.retain(now=now)
    kept = [row["epoch"] for row in harness.store.changes("v", -1).to_pylist()]
    assert kept == [4, 5, 6]
    records = harness.store.query("SELECT epoch FROM ms.epochs ORDER BY epoch").column("epoch").to_pylist()
    assert records == [2, 3, 4, 5, 6], "of the first hour, the last"


def test_dropping_leaves_nothing(harness: Harness) -> None:
    harness.epoch(delta((1, 0, 2, 5)))
    harness.store.apply(commands.Drop(["v"]))
    harness.store.apply(commands.Drop(["bids"]))
    left: Sequence[tuple[str]] = (
        harness.store.cursor()
        .execute("SELECT table_name FROM duckdb_tables() WHERE regexp_matches(table_name, '^(v[.]|bids[.]|__shelf)')")
        .fetchall()
    )
    assert left == []


def test_progress_is_the_same_after_reopening(tmp_path: Path) -> None:
    store = DuckDBStore(tmp_path / "store.duckdb", "500MB")
    store.apply(commands.CreateStream(STREAM, "CREATE STREAM …", 0))
    progress = Progress({0: 3, 1: 4}, {0: 9}, {0: 7, 1: 8}, 5, lateness=Lateness({0: 12, 4_000: 1}, {7: 2**40}))
    store.apply(Commit(0, [StreamPart(STREAM, progress)], []))
    assert store.progress(STREAM.name) == progress
    store.close()
    store = DuckDBStore(tmp_path / "store.duckdb", "500MB")
    assert store.progress(STREAM.name) == progress
    store.close()


def test_the_consumer_gets_what_was_applied_and_nothing_else(harness: Harness) -> None:
    seen: list[commands.Command] = []
    harness.store.consumer = seen.append
    harness.epoch(delta((1, 0, 2, 10)))
    with pytest.raises(MillstreamError):
        harness.store.apply(commands.CreateStream(STREAM, "CREATE STREAM …", 0))
    harness.store.apply(commands.Drop(["v"]))
    assert [type(command) for command in seen] == [commands.Commit, commands.Drop]


def test_a_limited_changelog_has_whole_epochs_and_at_least_one(harness: Harness) -> None:
    harness.epoch(delta((1, 0, 1, 1), (2, 0, 1, 1)))
    harness.epoch(delta((1, 0, 1, 1)))
    harness.epoch(delta((2, 0, 1, 1)))

    def epochs(since: int, until: int | None, limit: int | None) -> list[int]:
        found: list[int] = harness.store.changes("v", since, until, limit).column("epoch").to_pylist()
        return found

    assert epochs(-1, None, 1) == [1, 1]
    assert epochs(-1, None, 3) == [1, 1, 2]
    assert epochs(1, 2, None) == [2]
    assert epochs(3, None, 5) == []
    assert epochs(-1, 0, 5) == []
    assert epochs(-1, 2, 9) == [1, 1, 2]


def test_an_unknown_column_is_named(harness: Harness) -> None:
    query = parse_statement("SELECT nothing FROM v")
    assert isinstance(query, Select)
    with pytest.raises(UnknownColumnError) as unknown:
        harness.store.read(query.query)
    assert unknown.value.column == "nothing"
