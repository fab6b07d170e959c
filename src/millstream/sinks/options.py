"""The options that all sinks share; those of one connector are in its module."""

from __future__ import annotations

from typing import Literal

from millstream.model.settings import Options


class SinkOptions(Options):
    """What every sink may say."""

    connector: str
    start: Literal["earliest", "latest"] = "earliest"
    """Where the sink begins: with all changes that the changelog has, or with the next epoch."""

    @property
    def written_topic(self) -> str | None:
        """The topic of the embedded log that the sink writes; None if it writes elsewhere."""
        return None
