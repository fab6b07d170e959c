from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from millstream.sources import Opening
from tests.unit.sources.opening import opening_of

Begin = Callable[..., Opening]


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    """Openings of a stream `s` in the test's directory; their log is closed after the test."""
    with ExitStack() as held:

        def make(*args: Any, **rest: Any) -> Opening:
            opening = opening_of(tmp_path, *args, **rest)
            held.callback(opening.log.close)
            return opening

        yield make
