"""Recovery from lost parts: the same work, done again by what takes their place.

Owns how often and how soon. Whoever computes raises `LostPartError` when a process of it is gone, and has
replaced it when it is asked again. What always holds: the work changes nothing before it succeeds, and after a
few attempts the error goes to the caller, to whom it is a failure like any other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from millstream.model.errors import LostPartError

_Done = TypeVar("_Done")

_PAUSES_SECONDS = (0.0, 0.1, 0.5, 2.0)


def again(work: Callable[[], _Done], pauses: Sequence[float] = _PAUSES_SECONDS) -> _Done:
    """Do some work; where a part was lost meanwhile, do it again after each of these pauses."""
    for pause in pauses:
        try:
            return work()
        except LostPartError:
            time.sleep(pause)
    return work()
