"""What cannot be read, and when it is tried again."""

from __future__ import annotations

import pytest

import millstream as ms
from millstream.engine.run.health import Health, in_our_words
from millstream.model.errors import MillstreamError, UnavailableError

ERROR = MillstreamError("SOURCE_UNREADABLE", "gone")


@pytest.fixture
def clock() -> ms.ManualClock:
    return ms.ManualClock(0)


@pytest.fixture
def health(clock: ms.ManualClock) -> Health:
    return Health(clock)


def test_the_first_retry_is_due_at_once_and_the_others_later_each_time(health: Health, clock: ms.ManualClock) -> None:
    pauses = []
    for _ in range(9):
        health.fail("a", ERROR)
        pause = 0.0
        while health.rests("a"):
            clock.advance(0.5)
            pause += 0.5
        pauses.append(pause)
    assert pauses == [0, 0.5, 1, 2, 4, 8, 16, 30, 30]
    assert health.error("a") is ERROR


def test_a_success_ends_it(health: Health) -> None:
    for _ in range(3):
        health.fail("a", ERROR)
    health.fail("b", ERROR)
    health.recovered("a")
    assert (health.rests("a"), health.error("a"), health.error("b")) == (False, None, ERROR)
    health.fail("a", ERROR)
    assert not health.rests("a"), "the back-off begins again"


def test_somebody_who_waits_gets_another_attempt(health: Health) -> None:
    health.fail("a", ERROR)
    health.fail("a", ERROR)
    assert health.rests("a")
    before = health.asked
    asked = health.retry_all()
    assert not health.rests("a")
    assert (health.error("a"), health.error_since("a", asked)) == (ERROR, None)
    # An attempt from before says nothing about now.
    health.fail("a", ERROR, before)
    assert not health.rests("a")
    assert health.error_since("a", asked) is None
    health.fail("a", ERROR, health.asked)
    assert health.rests("a")
    assert health.error_since("a", asked) is ERROR


def test_what_is_gone_does_not_fail(health: Health) -> None:
    health.fail("a", ERROR)
    health.fail("b", ERROR)
    health.keep({"b"})
    assert (health.error("a"), health.error("b")) == (None, ERROR)


def test_a_failure_is_confined_unless_everything_is_concerned(health: Health) -> None:
    def fail(key: str, error: Exception) -> None:
        with health.confined(key):
            raise error

    fail("a", KeyError("k"))
    assert health.error("a") is not None
    with pytest.raises(UnavailableError):
        fail("b", UnavailableError("DISK_FULL", "full"))
    assert health.error("b") is None


def test_errors_of_connectors_are_said_in_our_words() -> None:
    assert in_our_words(ERROR) is ERROR
    denied = in_our_words(PermissionError(13, "Permission denied", "/in/a.csv"))
    assert (denied.code, denied.message, denied.detail) == ("SOURCE_UNREADABLE", "permission denied", "/in/a.csv")
    assert in_our_words(KeyError("k")).code == "INTERNAL"
