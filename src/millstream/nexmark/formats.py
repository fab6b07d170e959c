"""The formats of files. Apart from `files`, because the command line lists them before it loads Arrow."""

from __future__ import annotations

from enum import StrEnum


class FileFormat(StrEnum):
    PARQUET = "parquet"
    CSV = "csv"
    JSON = "json"
