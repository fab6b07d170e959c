"""The layout of the store's file: its own tables, and stores of earlier formats brought to this one.

What always holds: a store that was opened has the current format. Views and streams own tables of their own.
"""

from __future__ import annotations

import duckdb

from millstream.model.errors import MillstreamError
from millstream.store.duckdb.completeness import COMPLETENESS
from millstream.store.duckdb.failures import FAILURES
from millstream.store.duckdb.shelves import SHELVED
from millstream.store.duckdb.sinks import SINKS
from millstream.store.protocol import EARLY_INCARNATION

FORMAT_VERSION = 5
_READABLE = (2, 3, 4, 5)
"""Stores of format 2 and 3 are some of format 4 in which no view, or only live ones, are kept together. Before format 5
relations had no incarnation: they get one when the store is opened."""

_TABLES = """
CREATE SCHEMA IF NOT EXISTS ms;
CREATE TABLE IF NOT EXISTS ms.format (version INTEGER);
CREATE TABLE IF NOT EXISTS ms.catalog (
    name VARCHAR, kind VARCHAR, statement VARCHAR, created_at BIGINT, ordinal BIGINT);
ALTER TABLE ms.catalog ADD COLUMN IF NOT EXISTS incarnation VARCHAR;
CREATE TABLE IF NOT EXISTS ms.progress (name VARCHAR, kind VARCHAR, state VARCHAR);
CREATE TABLE IF NOT EXISTS ms.cleaned (view VARCHAR, epoch BIGINT);
CREATE TABLE IF NOT EXISTS ms.files (stream VARCHAR, seq BIGINT, path VARCHAR);
CREATE TABLE IF NOT EXISTS ms.epochs (
    epoch BIGINT, committed_at BIGINT, rows_in BIGINT, rows_decoded BIGINT, rows_dead BIGINT,
    rows_used BIGINT, rows_filtered BIGINT, rows_late BIGINT, rows_failed BIGINT,
    offsets VARCHAR, watermarks VARCHAR, streams VARCHAR, views VARCHAR, timings VARCHAR);
CREATE TABLE IF NOT EXISTS ms.thinned (rows_in HUGEINT, rows_late HUGEINT, rows_dead HUGEINT, rows_failed HUGEINT);
"""
_TABLES += SINKS + COMPLETENESS + SHELVED + FAILURES


def prepare(txn: duckdb.DuckDBPyConnection) -> int:
    """Create the tables that are missing and bring the others up to date; returns the last epoch."""
    txn.execute(_TABLES)
    found = txn.execute("SELECT version FROM ms.format").fetchall()
    if not found:
        txn.execute(f"INSERT INTO ms.format VALUES ({FORMAT_VERSION})")
    elif found[0][0] not in _READABLE:
        raise MillstreamError(
            "STORE_VERSION",
            f"the store has format {found[0][0]}, this release reads {' and '.join(map(str, _READABLE))}",
            hint="open it with the release that wrote it",
        )
    else:
        txn.execute(f"UPDATE ms.format SET version = {FORMAT_VERSION} WHERE version < {FORMAT_VERSION}")
        txn.execute(f"UPDATE ms.catalog SET incarnation = '{EARLY_INCARNATION}' || ordinal WHERE incarnation IS NULL")
    ((epoch,),) = txn.execute("SELECT max(epoch) FROM ms.epochs").fetchall()
    return epoch or 0
