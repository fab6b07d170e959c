"""The ways rows are printed. Apart from `show`, because the command line lists them before it loads the engine."""

from __future__ import annotations

from enum import StrEnum


class Format(StrEnum):
    TABLE = "table"
    CSV = "csv"
    JSON = "json"


class StatusFormat(StrEnum):
    """The ways of `millstream status`, which is more than one table."""

    TABLE = "table"
    JSON = "json"
