"""The registry of sink connectors: one entry per value of the option `connector`.

Owns what the engine must know of a connector before it opens a sink. Nothing registers itself by being
imported, and nothing outside this package tells sinks apart by their type.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from millstream.sinks.options import SinkOptions
from millstream.sinks.protocol import Opening, Sink
from millstream.sinks.topic import TopicOptions, open_topic

Read = TypeVar("Read", bound=SinkOptions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Connector(Generic[Read]):
    options: type[Read]
    """The options of `WITH (…)`."""
    open: Callable[[Read, Opening], Sink]
    guarantee: Literal["exactly once", "at least once"]
    """Shown by SHOW SINKS. Exactly once: the target says how far it is, so that nothing is repeated."""


SINKS: dict[str, Connector[Any]] = {
    "topic": Connector(options=TopicOptions, open=open_topic, guarantee="exactly once"),
}
