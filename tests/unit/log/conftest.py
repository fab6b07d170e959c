from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from millstream.log import Log
from millstream.model.time import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_000_000)


@pytest.fixture
def open_log(tmp_path: Path, clock: ManualClock) -> Iterator[Callable[[], Log]]:
    """Opens the test's log; opening it again closes the one before, as a restart would."""
    opened: list[Log] = []

    def open_() -> Log:
        for log in opened:
            log.close()
        opened.append(Log(tmp_path / "log", clock))
        return opened[-1]

    yield open_
    for log in opened:
        log.close()


@pytest.fixture
def log(open_log: Callable[[], Log]) -> Log:
    return open_log()
