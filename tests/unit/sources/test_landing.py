import threading

import pyarrow as pa

from millstream.log import Log, Topic
from millstream.model.errors import MillstreamError
from millstream.sources.landing import LandingSource
from millstream.sources.log import LogOptions
from tests.unit.sources.conftest import Begin

FULL = MillstreamError("DISK_FULL", "no space is left")


class Failing:
    """A topic whose first appends fail."""

    def __init__(self, topic: Topic, failures: int) -> None:
        self._topic = topic
        self.left = failures
        self.failed = threading.Event()

    def append(self, rows: pa.Table, *, message_ids: object = None) -> object:
        if self.left:
            self.left -= 1
            self.failed.set()
            raise FULL
        return self._topic.append(rows)


def _landing(begin: Begin, failures: int = 0) -> tuple[LandingSource, Log, Failing]:
    opening = begin()
    topic = opening.log.create_topic("s")
    source = LandingSource(topic, opening.stream.schema, LogOptions(), opening.clock)
    failing = Failing(topic, failures)
    source.topic = failing  # type: ignore[assignment]
    return source, opening.log, failing


def _ends(log: Log) -> int:
    return log.topic("s").end_offsets()[0]


def test_rows_are_durable_before_they_are_acknowledged(begin: Begin) -> None:
    source, log, _ = _landing(begin)
    seen: list[int] = []
    assert source.land_lines([b"1", b"2"], lambda: seen.append(_ends(log)))
    assert seen == [2]


def test_what_cannot_be_written_is_tried_again_and_acknowledged_once(begin: Begin) -> None:
    source, log, _ = _landing(begin, failures=2)
    seen: list[int] = []
    assert source.land_lines([b"1"], lambda: seen.append(_ends(log)))
    assert seen == [1]
    assert source.failure is None


def test_a_failure_is_visible_and_close_ends_the_retries(begin: Begin) -> None:
    source, log, failing = _landing(begin, failures=10**9)
    outcome: list[bool] = []
    acknowledged = threading.Event()
    source.serve("test-landing", lambda: outcome.append(source.land_lines([b"1"], acknowledged.set)))
    assert failing.failed.wait(30)
    # The thread notes the failure right after the append has failed, and waits.
    for _ in range(3000):
        if source.failure is not None:
            break
        threading.Event().wait(0.01)
    assert source.failure is FULL
    source.close()
    assert outcome == [False]
    assert not acknowledged.is_set()
    assert _ends(log) == 0


def test_work_that_raises_is_begun_again(begin: Begin) -> None:
    source, _, _ = _landing(begin)
    again = threading.Event()
    calls: list[int] = []

    def work() -> None:
        calls.append(1)
        if len(calls) == 1:
            raise RuntimeError("lost")
        again.set()

    source.serve("test-landing", work)
    assert again.wait(30)
    assert source.failure is not None
    assert "RuntimeError: lost" in source.failure.message
    source.close()


def test_a_source_that_recovered_has_no_failure(begin: Begin) -> None:
    source, _, _ = _landing(begin)
    source._failure = FULL
    source.recovered()
    assert source.failure is None
