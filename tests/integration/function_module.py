"""A module that the tests allow as a source of functions."""

from __future__ import annotations

from os import system  # noqa: F401, a module's imports must not become functions of SQL

import pyarrow as pa
import pyarrow.compute as pc


def doubled(values: pa.Array) -> pa.Array:
    return pc.multiply_checked(values, 2)


def _private(values: pa.Array) -> pa.Array:
    return values
