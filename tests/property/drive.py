"""Running a feed through the real engine, one insert an epoch, and checking it against the model."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import duckdb

import millstream as ms
from tests.answers import rows_of
from tests.parts import parts_of

from .compare import Replay, difference
from .keyed import Placed
from .model import Case, Judged, ViewModel, Watermark, micros
from .rows import Feed, Row


class Run:
    """A database and the model of what it should hold."""

    def __init__(self, directory: Path, feed: Feed, cases: Sequence[Case]) -> None:
        self.directory = directory
        self.feed = feed
        self.oracle = duckdb.connect()
        self.watermark = Watermark(feed.slack)
        self.models: dict[str, ViewModel] = {}
        self.replays: dict[str, Replay] = {}
        self.shown: dict[str, list[Row]] = {}
        self.placed: list[Placed] = []
        self.read_to: dict[int, int] = dict.fromkeys(range(feed.partitions), 0)
        self.judged: dict[int, dict[str, Judged]] = {}
        self._kernels = list(feed.kernels)
        self.db = self._connect()
        self.db.sql(feed.create_sql())
        self.create(cases)

    def create(self, cases: Sequence[Case]) -> None:
        for case in cases:
            self.db.sql(case.create_sql())
            self.models[case.name] = ViewModel(case, self.oracle)
            self.replays[case.name] = Replay(case.keys)
            self.shown[case.name] = []

    def _connect(self) -> ms.Database:
        kernel = self._kernels.pop(0) if len(self._kernels) > 1 else self._kernels[0]
        return ms.connect(self.directory, settings=ms.EngineSettings(kernel=kernel))

    def restart(self) -> None:
        self.db.close()
        self.db = self._connect()

    def close(self) -> None:
        self.oracle.close()
        self.db.close()

    def step(self, batch: Sequence[Row]) -> int:
        """Insert some rows and drain: one epoch."""
        last = rows_of(self.db, "SHOW EPOCHS")
        assert self.db.insert("s", list(batch)) == len(batch)
        epoch = self.db.drain()
        assert epoch == (last[-1]["epoch"] if last else 0) + 1, "an insert and a drain are one epoch"
        arrived = self._arrived()
        assert len(arrived) == len(batch)
        before = self.watermark.at
        self.judged[epoch] = {name: model.take(arrived, before) for name, model in self.models.items()}
        self.watermark.advance(arrived)
        return epoch

    def _arrived(self) -> list[Placed]:
        """The rows that the log has more than before, with their places."""
        topic = parts_of(self.db).log.topic("s")
        arrived: list[Placed] = []
        for partition, start in self.read_to.items():
            end = topic.end_offsets()[partition]
            if end == start:
                continue
            for batch in topic.read(partition, start, end):
                for row in batch.to_pylist():
                    own = {name: value for name, value in row.items() if not name.startswith("_")}
                    arrived.append(Placed(partition, row["_offset"], own))
            self.read_to[partition] = end
        self.placed.extend(arrived)
        return arrived

    # -- what must hold after every epoch --------------------------------------------------------

    def check_views(self) -> None:
        """Every view equals its batch query over the same prefix."""
        for name, model in self.models.items():
            actual = self.db.query(f"SELECT * FROM {name}").rows()
            if model.case.early:
                # Incomplete windows show their last firing, which the batch query knows nothing of.
                end = model.case.windows.size * 1_000_000  # type: ignore[union-attr]
                at = self.watermark.at
                actual = [row for row in actual if at is not None and micros(row["window_start"]) + end <= at]
            wrong = difference(actual, model.expected(self.watermark.at), model.case.keys)
            assert wrong is None, f"view {name}: {wrong}"

    def check_changes(self, since: int) -> None:
        """The changes since an epoch turn the view of then into the view of now, and are needed."""
        for name, replay in self.replays.items():
            changes = self.db.changes(name, since_epoch=since).rows()
            assert [c["epoch"] for c in changes] == sorted(c["epoch"] for c in changes)
            replay.apply(changes)
            now = self.db.query(f"SELECT * FROM {name}").rows()
            case = self.models[name].case
            wrong = difference(replay.rows(), now, case.keys)
            assert wrong is None, f"changelog of {name}: {wrong}"
            if "EMIT" not in case.sql and case.keys:
                self._check_only_changes(name, case, changes, now)
            self.shown[name] = now

    def _check_only_changes(self, name: str, case: Case, changes: list[Row], now: list[Row]) -> None:
        """A live view publishes the rows whose value changed, and no others."""
        old = {tuple(row[key] for key in case.keys): row for row in self.shown[name]}
        new = {tuple(row[key] for key in case.keys): row for row in now}
        changed = {key for key in old.keys() | new.keys() if old.get(key) != new.get(key)}
        published = Counter(tuple(change[key] for key in case.keys) for change in changes)
        assert set(published) == changed, f"changelog of {name}: published {set(published)}, changed {changed}"
        assert not published or max(published.values()) == 1, f"changelog of {name} says a row twice: {published}"

    def check_letters(self) -> None:
        """`s__late` holds exactly the late rows of each view, `s__dead` the rows without a time."""
        late = Counter(
            (row["_view"], row["_partition"], row["_offset"]) for row in self.db.query("SELECT * FROM s__late").rows()
        )
        expected = Counter(
            {(name, *place): n for name, model in self.models.items() for place, n in model.late.items()}
        )
        assert late == expected
        dead = self.db.query("SELECT * FROM s__dead").rows()
        without = Counter((p.partition, p.offset) for p in self.placed if p.row["ts"] is None)
        assert Counter((row["_partition"], row["_offset"]) for row in dead) == without
        assert all(row["reason"] == "event time ts is NULL" for row in dead)

    def check_epochs(self) -> None:
        """Epochs have no gaps, and every row of every epoch is accounted for as the model says."""
        epochs = rows_of(self.db, "SHOW EPOCHS")
        assert [row["epoch"] for row in epochs] == list(range(1, len(epochs) + 1))
        for row in epochs:
            streams, views = json.loads(row["streams"]), json.loads(row["views"])
            assert row["rows_in"] == row["rows_decoded"] + row["rows_dead"]
            for counts in streams.values():
                assert counts["in"] == counts["decoded"] + counts["dead"]
            for name, counts in views.items():
                decoded = streams["s"]["decoded"]
                assert counts["used"] + counts["filtered"] + counts["late"] + counts["failed"] == decoded, name
            for name, judged in self.judged.get(row["epoch"], {}).items():
                counts = views[name]
                assert Judged(counts["used"], counts["filtered"], counts["late"]) == judged, name
                assert counts["failed"] == 0
        if epochs and self.watermark.at is not None:
            assert json.loads(epochs[-1]["watermarks"]) == {"s": self.watermark.at}
            assert json.loads(epochs[-1]["offsets"]) == {"s": {str(p): o for p, o in self.read_to.items()}}

    def check_partitioning(self) -> None:
        """With a key, equal keys share a partition; without, rows are spread evenly."""
        if self.feed.key is not None:
            homes: dict[str | None, set[int]] = {}
            for placed in self.placed:
                homes.setdefault(placed.row[self.feed.key], set()).add(placed.partition)
            assert all(len(partitions) == 1 for partitions in homes.values())
        elif self.placed:
            counts = Counter(placed.partition for placed in self.placed)
            spread = [counts.get(partition, 0) for partition in range(self.feed.partitions)]
            assert max(spread) - min(spread) <= 1

    def check_replay_from_zero(self) -> None:
        """The whole changelog, from nothing, gives the view."""
        for name, model in self.models.items():
            replay = Replay(model.case.keys)
            replay.apply(self.db.changes(name).rows())
            now = self.db.query(f"SELECT * FROM {name}").rows()
            wrong = difference(replay.rows(), now, model.case.keys)
            assert wrong is None, f"changelog of {name} from zero: {wrong}"

    def on_time_panes(self, name: str) -> list[Row]:
        """What a view published when its windows became complete.

        What an early pane had said before, and whether a late one can follow, depend on the epochs.
        """
        left_out = {"epoch", "pane_index"} | ({"final"} if self.models[name].case.lateness else set())
        return [
            {key: value for key, value in change.items() if key not in left_out}
            for change in self.db.changes(name).rows()
            if change["pane"] == "on_time" and change["op"] != "retract"
        ]
