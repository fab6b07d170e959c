"""The lock of the epoch loop: first come, first served."""

from __future__ import annotations

import threading
import time

from millstream.engine.run.turns import Turns


def test_who_asked_first_has_it_first() -> None:
    turns, order = Turns(), []

    def take(number: int) -> None:
        with turns:
            order.append(number)

    threads = [threading.Thread(target=take, args=(number,)) for number in range(8)]
    with turns:
        for thread in threads:
            thread.start()
            time.sleep(0.02)
        assert order == []
    for thread in threads:
        thread.join(5)
    assert order == list(range(8))


def test_a_holder_that_comes_back_at_once_has_to_queue() -> None:
    turns, got_it = Turns(), threading.Event()
    waiting = threading.Event()

    def wait() -> None:
        waiting.set()
        with turns:
            got_it.set()

    thread = threading.Thread(target=wait)
    with turns:
        thread.start()
        waiting.wait(5)
        time.sleep(0.05)
    with turns:
        assert got_it.is_set(), "the lock was snatched from the one who waited"
    thread.join(5)


def test_the_holder_may_take_it_again() -> None:
    turns, entered = Turns(), threading.Event()
    thread = threading.Thread(target=lambda: _enter(turns, entered))
    with turns:
        with turns:
            thread.start()
        assert not entered.wait(0.1), "leaving the inner block must not let go"
    assert entered.wait(5)
    thread.join(5)


def test_one_that_is_interrupted_leaves_the_queue() -> None:
    turns = Turns()
    with turns:
        me = threading.get_ident()
        gate = threading.Lock()
        turns._waiting.append((me, gate))
        turns._give_up(me, gate)
        assert not turns._waiting
    entered = threading.Event()
    thread = threading.Thread(target=lambda: _enter(turns, entered))
    thread.start()
    assert entered.wait(5)
    thread.join(5)


def _enter(turns: Turns, entered: threading.Event) -> None:
    with turns:
        entered.set()
