"""Health: what cannot be read at the moment, why, and when it is tried again.

Owns the failures that are local to one source, or to the history of one view, and their back-off in processing time.
What always holds: a failure is bound to an incarnation, never to a name, and lasts until the first success. The first
retry is due at once, each later one after a longer pause. Must not hide what everything needs (`UnavailableError`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from millstream.engine.define.catalog import StreamEntry
from millstream.model.errors import MillstreamError, UnavailableError, as_ours
from millstream.model.time import MICROS, Clock

_SECOND_PAUSE = MICROS // 2
_LONGEST_PAUSE = 30 * MICROS


class NotedError(MillstreamError):
    """Something local cannot be read. It is noted already, and it is tried again later."""

    def __init__(self, error: MillstreamError) -> None:
        super().__init__(error.code, error.message, detail=error.detail, hint=error.hint)


class SourceFailedError(NotedError):
    """One source cannot be read."""


class HistoryFailedError(NotedError):
    """The history of one view cannot be read."""


@dataclass(frozen=True, slots=True)
class Failing:
    error: MillstreamError
    pause: int
    retry_at: int
    asked: int
    """The last request to try again that the failed attempt knew of."""


@dataclass(slots=True)
class Health:
    clock: Clock
    asked: int = 0
    """The number of requests to try everything again."""
    _failing: dict[str, Failing] = field(default_factory=dict)

    def rests(self, key: str) -> bool:
        """Whether something failed and is not due to be tried again."""
        known = self._failing.get(key)
        return known is not None and self.clock.now() < known.retry_at

    def error(self, key: str) -> MillstreamError | None:
        """Why something cannot be read, if it cannot."""
        known = self._failing.get(key)
        return known.error if known is not None else None

    def error_since(self, key: str, asked: int) -> MillstreamError | None:
        """Why something could not be read since a request to try again."""
        known = self._failing.get(key)
        return known.error if known is not None and known.asked >= asked else None

    def fail(self, key: str, error: Exception, asked: int | None = None) -> MillstreamError:
        """Note a failure. An attempt that began before `asked` was raised is due again at once."""
        known = self._failing.get(key)
        found = in_our_words(error)
        if known is None or asked not in (None, self.asked):
            pause = 0
        else:
            pause = min(max(2 * known.pause, _SECOND_PAUSE), _LONGEST_PAUSE)
        knew = asked if asked is not None else self.asked
        self._failing[key] = Failing(found, pause, self.clock.now() + pause, knew)
        return found

    def recovered(self, key: str) -> None:
        self._failing.pop(key, None)

    def retry_all(self) -> int:
        """Somebody waits: everything is due now. Returns the number of this request."""
        self.asked += 1
        for key, known in list(self._failing.items()):
            self._failing[key] = replace(known, pause=0, retry_at=self.clock.now())
        return self.asked

    def keep(self, keys: set[str]) -> None:
        """Forget everything else: what is gone does not fail."""
        for key in self._failing.keys() - keys:
            self._failing.pop(key, None)

    @contextmanager
    def confined(self, key: str) -> Iterator[None]:
        """A failure of the block is noted, unless everything is concerned."""
        try:
            yield
        except UnavailableError:
            raise
        except Exception as error:
            self.fail(key, error)


def in_our_words(error: Exception) -> MillstreamError:
    """An error of a connector."""
    match error:
        case OSError(strerror=str() as said, filename=name):
            return MillstreamError("SOURCE_UNREADABLE", said.lower(), detail=str(name) if name is not None else None)
    return as_ours(error)


def stream_error(health: Health, entry: StreamEntry) -> MillstreamError | None:
    """Why a stream brings no rows, if it does not."""
    return health.error(entry.incarnation) or entry.source.failure
