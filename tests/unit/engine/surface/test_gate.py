"""Calls and the end of a database: nothing is closed under a call."""

from __future__ import annotations

import threading

import pytest

from millstream.engine.surface.gate import ClosedError, Gate


def test_closing_waits_for_the_calls_of_other_threads() -> None:
    gate = Gate()
    inside, leave = threading.Event(), threading.Event()

    def work() -> None:
        with gate.call():
            inside.set()
            leave.wait(60)

    thread = threading.Thread(target=work)
    thread.start()
    assert inside.wait(60)
    assert gate.shut()
    assert not gate.wait(0.01)
    leave.set()
    assert gate.wait(60)
    thread.join()


def test_a_thread_does_not_wait_for_itself() -> None:
    gate = Gate()
    with gate.call(), gate.call():
        assert gate.shut()
        assert gate.wait(60)


def test_nothing_begins_once_it_is_shut() -> None:
    gate = Gate()
    with pytest.raises(ValueError, match="mine"), gate.call():
        raise ValueError("mine")
    assert [gate.is_open, gate.shut(), gate.shut(), gate.is_open] == [True, True, False, False]
    with pytest.raises(ClosedError), gate.call():
        pass
    assert gate.wait(60)


def test_daemon_threads_wait_for_the_end_of_the_process() -> None:
    """One that holds no lock is parked; one that may hold some is refused, and so is the main thread."""
    gate = Gate()
    gate.shut(ending=True)
    refused = threading.Event()

    def ask(*, parks: bool) -> None:
        try:
            with gate.call(parks=parks):
                pass
        except ClosedError:
            refused.set()

    threading.Thread(target=ask, kwargs={"parks": False}, daemon=True).start()
    assert refused.wait(60)
    refused.clear()
    parked = threading.Thread(target=ask, kwargs={"parks": True}, daemon=True)
    parked.start()
    parked.join(0.2)
    assert parked.is_alive()
    assert not refused.is_set()
    with pytest.raises(ClosedError):
        gate.call(parks=True).__enter__()
