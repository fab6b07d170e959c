"""`source = 'spark'`: any `readStream` format, through Structured Streaming.

Owns its options. Structured Streaming plans and pushes the batches, each of which is an epoch, so
there is nothing for the engine to cut. `millstream.spark.streaming` runs the query.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field, field_validator

from millstream.sources.options import Pushed, StreamOptions
from millstream.sources.protocol import Cut, Offsets, Opening, Source


class SparkOptions(StreamOptions):
    """`source = 'spark'`: any `readStream` format, with its options as `'option.<name>'`."""

    format: str
    path: str | None = None
    options: dict[str, str] = Field(default_factory=dict)

    @classmethod
    def accepts(cls, name: str) -> bool:
        return name.startswith("option.")

    @classmethod
    def shape(cls, options: dict[str, str]) -> dict[str, Any]:
        own = {name: value for name, value in options.items() if not cls.accepts(name)}
        passed = {name.removeprefix("option."): value for name, value in options.items() if cls.accepts(name)}
        return {**own, "options": passed}

    @field_validator("format")
    @classmethod
    def _is_a_word(cls, value: str) -> str:
        if not value.replace("-", "").replace("_", "").replace(".", "").isalnum():
            raise ValueError("a format is a plain name such as rate, json or kafka")
        return value

    def pushed(self) -> Pushed:
        return Pushed(self.format, self.path, self.options)


class PushedSource(Source):
    """Offset n of the one partition is batch n; only the batch that was pushed can be read."""

    @property
    def partitions(self) -> int:
        return 1

    def start(self) -> Offsets:
        return {}

    def end(self) -> Offsets:
        return {}

    def waiting(self, offsets: Offsets) -> int:
        return 0

    def cut(self, offsets: Offsets, limit: int, until: Offsets | None = None) -> Cut | None:
        return None

    def close(self) -> None:
        pass


def open_pushed(options: SparkOptions, opening: Opening) -> PushedSource:
    return PushedSource()
