"""Rows that a program inserts or deletes, on their way into the log.

Owns which streams and tables take rows, and under which keys the log has them. What always holds:
what was accepted is durable, and what is refused is refused whole, before anything is written.
Must not touch the store: rows take effect with the next epoch.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from millstream.api import Lines, MessageIds, Rows
from millstream.engine.define.catalog import Catalog, StreamEntry
from millstream.engine.define.tables import find_table, tombstones
from millstream.engine.surface.rows import to_table
from millstream.engine.surface.topics import raw_table
from millstream.log import Log
from millstream.model.errors import MillstreamError


@dataclass(frozen=True, slots=True)
class Inserting:
    """Each method returns how many rows were accepted."""

    catalog: Catalog
    log: Log

    def insert(self, name: str, rows: Rows, message_ids: MessageIds | None) -> int:
        """Append rows to a stream, or to the changes of a table."""
        entry = self._open(name)
        return self._append(entry, to_table(rows, entry.stream.schema, entry.name), message_ids)

    def delete(self, name: str, keys: Rows, message_ids: MessageIds | None) -> int:
        """Append tombstones of keys to the changes of a table."""
        entry = self._open(find_table(self.catalog, name).name)
        table = to_table(keys, entry.stream.schema, entry.name)
        return self._append(entry, tombstones(entry.stream, table), message_ids)

    def insert_lines(self, name: str, lines: Lines, message_ids: MessageIds | None) -> int:
        """Append lines that are decoded when they are processed."""
        entry = self._open(name)
        return self._append(entry, raw_table(lines), message_ids)

    def _open(self, name: str) -> StreamEntry:
        """The stream or table of a name, if it takes rows."""
        entry = self.catalog.stream(name)
        if not entry.connector.takes_rows:
            raise MillstreamError(
                "NOT_INSERTABLE",
                f"{entry.name} reads from {entry.options.source!r}: rows cannot be inserted or deleted",
                hint="a stream or table with source = 'log' takes them",
            )
        return entry

    def _append(self, entry: StreamEntry, rows: pa.Table, message_ids: MessageIds | None) -> int:
        if rows.num_rows == 0:
            return 0
        if isinstance(message_ids, str) or any(not isinstance(i, str | None) for i in message_ids or ()):
            raise MillstreamError("BAD_ROWS", "message_ids is a list of texts, one a row")
        assert entry.topic is not None
        topic = self.log.topic(entry.topic.name)
        # What is not decoded yet has no key yet.
        keys = () if "_raw" in rows.column_names else entry.stream.primary_key or entry.options.partition_keys
        return topic.append(rows, keys=keys, message_ids=message_ids).rows
