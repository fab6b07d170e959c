"""The log against lists: any sequence of appends, restarts, rolls, crashes and reads."""

import tempfile
from pathlib import Path

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from millstream.log import Log, TopicSettings
from millstream.model.time import MICROS, ManualClock

from .rows import numbered, read_offsets


class LogAgainstLists(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.clock = ManualClock(100)
        self.ids: set[str] = set()
        self.sent = 0

    def teardown(self) -> None:
        self.log.close()
        self.folder.cleanup()

    @initialize(partitions=st.integers(1, 3), segment_bytes=st.sampled_from([1, 700, 2_000, 1 << 20]))
    def create(self, partitions: int, segment_bytes: int) -> None:
        self.log = Log(Path(self.folder.name), self.clock)
        self.settings = TopicSettings(segment_bytes=segment_bytes, segment_micros=50 * MICROS)
        self.topic = self.log.create_topic("t", partitions, self.settings)
        self.rows: list[list[int]] = [[] for _ in range(partitions)]
        self.starts = [0] * partitions

    @rule(count=st.integers(0, 7), by_key=st.booleans())
    def append(self, count: int, by_key: bool) -> None:
        values = list(range(self.sent, self.sent + count))
        self.sent += count
        appended = self.topic.append(numbered(*values), keys=["n"] if by_key else [])
        assert appended.rows == count
        self.expect(appended.ranges, values)

    @rule(numbers=st.lists(st.integers(0, 20), max_size=6))
    def append_with_ids(self, numbers: list[int]) -> None:
        ids = [f"id {number}" for number in numbers]
        fresh = [n for at, n in enumerate(numbers) if ids[at] not in self.ids and n not in numbers[:at]]
        self.ids.update(ids)
        appended = self.topic.append(numbered(*numbers), message_ids=ids)
        assert appended.duplicates == len(numbers) - len(fresh)
        self.expect(appended.ranges, fresh)

    def expect(self, ranges: object, values: list[int]) -> None:
        assert isinstance(ranges, dict)
        written = []
        for partition, (first, count) in ranges.items():
            assert first == len(self.rows[partition])
            read = [n for b in self.topic.read(partition, first) for n in b["n"].to_pylist()]
            assert len(read) == count
            self.rows[partition] += read
            written += read
        assert sorted(written) == sorted(values)

    @rule(seconds=st.integers(1, 60))
    def advance(self, seconds: int) -> None:
        self.clock.advance(seconds)

    @rule(torn=st.binary(max_size=200))
    def restart(self, torn: bytes) -> None:
        """Also with bytes of a write that was never finished at the end of a file."""
        partition = self.topic._partitions[0]
        active = partition.segments()[-1].path
        self.log.close()
        with active.open("ab") as file:
            file.write(torn)
        self.log = Log(Path(self.folder.name), self.clock)
        self.topic = self.log.topic("t")

    @precondition(lambda self: self.sent > 5)
    @rule(keep=st.integers(0, 40))
    def drop_oldest(self, keep: int) -> None:
        self.topic.change_settings(TopicSettings(segment_bytes=self.settings.segment_bytes, retention_bytes=0))
        keep_from = {partition: min(keep, len(rows)) for partition, rows in enumerate(self.rows)}
        self.topic.retain(keep_from)
        self.topic.change_settings(self.settings)
        for partition, start in self.topic.start_offsets().items():
            assert self.starts[partition] <= start <= max(keep_from[partition], self.starts[partition])
            self.starts[partition] = start

    @rule(data=st.data())
    def read_some(self, data: st.DataObject) -> None:
        for partition, rows in enumerate(self.rows):
            start = data.draw(st.integers(self.starts[partition], len(rows)))
            end = data.draw(st.integers(start, len(rows)))
            read = [n for b in self.topic.read(partition, start, end) for n in b["n"].to_pylist()]
            assert read == rows[start:end]

    @invariant()
    def offsets_are_dense_and_end_where_they_should(self) -> None:
        if not hasattr(self, "rows"):
            return
        for partition, rows in enumerate(self.rows):
            assert read_offsets(self.topic, partition) == list(range(self.starts[partition], len(rows)))
        assert self.topic.end_offsets() == {p: len(rows) for p, rows in enumerate(self.rows)}


TestLogAgainstLists = LogAgainstLists.TestCase
TestLogAgainstLists.settings = settings(
    max_examples=60,
    stateful_step_count=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
