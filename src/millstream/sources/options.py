"""The options of streams and tables, by source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, field_validator

from millstream.model.settings import Duration, Options, Size
from millstream.sources.starts import read_start

DAY = 86_400 * 1_000_000


class StreamOptions(Options):
    """What every stream may say."""

    source: str = "log"
    idle_timeout: Duration | None = None
    max_ahead: Duration | None = None
    """How far event time may run ahead of arrival; by default one day ahead of the machine's clock."""
    letters_retain: Duration | None = 30 * DAY
    """How long late and dead rows are kept."""


class ReplayedOptions(StreamOptions):
    """Sources whose rows are there before the stream is: it can begin anywhere among them."""

    start: str = "earliest"
    start_offsets: str | None = None
    """What `start` came to when the stream was made; noted by the engine."""

    @field_validator("start")
    @classmethod
    def _is_a_start(cls, value: str) -> str:
        read_start(value)
        return value

    @field_validator("start_offsets")
    @classmethod
    def _are_offsets(cls, value: str | None) -> str | None:
        if value is not None and read_start(value).offsets is None:
            raise ValueError("write offsets such as '0=100, 1=250'")
        return value

    @property
    def begins_at(self) -> Mapping[int, int]:
        """The offsets before which the stream has no rows."""
        return read_start(self.start_offsets or "earliest").offsets or {}


class LogOptions(ReplayedOptions):
    """`source = 'log'`: the embedded log."""

    topic: str | None = None
    partitions: int = Field(default=1, ge=1, le=1024)
    format: Literal["json", "csv"] = "json"
    key: str | None = None
    """Columns (comma-separated) whose hash chooses the partition; without it, round-robin."""
    retention: Duration | None = None
    retention_size: Size | None = None
    message_id_window: Duration = DAY

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(name.strip() for name in (self.key or "").split(",") if name.strip())


class TableOptions(Options):
    """`CREATE TABLE … WITH (…)`, besides the options of its source: what its changes mean."""

    operation: str | None = None
    """The column that says what a change does."""
    deletes: str = "d, delete"
    upserts: str = "c, r, u, i, create, read, update, insert, upsert"
    sequence: str | None = None
    """The column that orders the changes of a key."""
    versioned: bool = False
    history: Duration | None = None
    """How long versions are kept after their end."""
    tombstone_retain: Duration = 7 * DAY
    """How long deletions are remembered."""

    def words(self, option: Literal["deletes", "upserts"]) -> tuple[str, ...]:
        """The operations that an option lists, in lower case."""
        listed = (word.strip().lower() for word in getattr(self, option).split(","))
        return tuple(dict.fromkeys(word for word in listed if word))


class SocketOptions(LogOptions):
    """`source = 'socket'`: lines over TCP, from a server we connect to or from clients we accept."""

    host: str = "127.0.0.1"
    port: int = Field(ge=0, le=65535)
    listen: bool = False


class FilesOptions(ReplayedOptions):
    """`source = 'files'`: a directory of files, each read once."""

    path: str
    format: Literal["json", "csv", "parquet"]
    pattern: str = "*"
    header: bool = False
    delimiter: str = ","
    timestamp_format: str | None = None
    files_per_epoch: int = Field(default=100, ge=1)
    bytes_per_epoch: Size = 256 * 2**20

    def reader_options(self) -> tuple[tuple[str, str], ...]:
        """The options of Spark's reader."""
        options: dict[str, str] = {}
        if self.format == "csv":
            options |= {"header": str(self.header).lower(), "sep": self.delimiter, "enforceSchema": "true"}
        if self.timestamp_format:
            options["timestampFormat"] = self.timestamp_format
        return tuple(options.items())


class DatagenOptions(StreamOptions):
    """`source = 'datagen'`: synthetic rows, the n-th always the same for one seed."""

    seed: int = 0
    rows: int | None = Field(default=None, ge=0)
    rate: float | None = Field(default=None, gt=0)
    """Rows per second; without it as fast as possible, which needs `rows`."""
    start: str | None = None
    """Event time of the first row."""
    interval: Duration | None = None
    """Event time between two rows; by default 1 / rate, or a millisecond."""
    disorder: Duration | None = None
    late_share: float = Field(default=0, ge=0, le=1)
    late_by: Duration | None = None
    fields: dict[str, dict[str, str]] = Field(default_factory=dict)

    @classmethod
    def accepts(cls, name: str) -> bool:
        return name.startswith("fields.") and name.count(".") == 2

    @classmethod
    def shape(cls, options: dict[str, str]) -> dict[str, Any]:
        flat: dict[str, Any] = {name: value for name, value in options.items() if not cls.accepts(name)}
        rules: dict[str, dict[str, str]] = {}
        for name, value in options.items():
            if cls.accepts(name):
                _, column, rule = name.split(".")
                rules.setdefault(column, {})[rule] = value
        return {**flat, "fields": rules}


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


SOURCES: dict[str, type[StreamOptions]] = {
    "log": LogOptions,
    "files": FilesOptions,
    "datagen": DatagenOptions,
    "socket": SocketOptions,
    "spark": SparkOptions,
}
