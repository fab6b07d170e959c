"""The changes of a view as they are committed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Subscription(Protocol):
    """An iterator over changes, whole epochs at a time. It ends with the connection, or with `close` or `end`."""

    def __iter__(self) -> Iterator[dict[str, Any]]: ...

    def __next__(self) -> dict[str, Any]: ...

    def end(self) -> None:
        """Have the iteration end soon. Takes no lock, so a signal handler may call it."""

    def close(self) -> None: ...
