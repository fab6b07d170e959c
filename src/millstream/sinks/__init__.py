"""Connectors: where the changes of views go."""

from millstream.sinks.options import SinkOptions
from millstream.sinks.protocol import Opening, Position, Sink
from millstream.sinks.registry import SINKS, Connector

__all__ = ["SINKS", "Connector", "Opening", "Position", "Sink", "SinkOptions"]
