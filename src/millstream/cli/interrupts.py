"""Ctrl-C for commands that run until they are told to stop.

Owns the signal handlers while such a command runs: the first Ctrl-C (or SIGTERM) asks it to end
cleanly, a second one ends the process at once with exit code 130.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from millstream.cli.console import ERR

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stop_on_interrupt(tell: Callable[[], None] | None = None) -> Iterator[threading.Event]:
    """An event that is set once the user wants to stop; `tell` is called then, inside of the signal handler."""
    stop = threading.Event()

    def handle(number: int, frame: FrameType | None) -> None:
        if stop.is_set() and number == signal.SIGINT:
            os._exit(130)
        stop.set()
        if tell is not None:
            tell()

    before = {number: signal.signal(number, handle) for number in _SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if stop.is_set() and ERR.is_terminal:
            ERR.show_cursor(True)
