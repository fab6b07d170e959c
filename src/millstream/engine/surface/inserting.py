"""Rows that a program inserts or deletes, on their way into the log.

Owns which streams and tables take rows, and under which keys the log has them. What always holds:
what was accepted is durable, and what is refused is refused whole, before anything is written.
Rows go to the incarnation that they were sent to: if it is dropped meanwhile they are refused, and a
stream that was created again under its name does not get them. Must not touch the store: rows take effect with
the next epoch.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from millstream.api import Lines, MessageIds, Rows
from millstream.engine.define.catalog import Catalog, StreamEntry
from millstream.engine.define.tables import find_table, tombstones
from millstream.engine.surface.rows import to_table
from millstream.engine.surface.topics import raw_table
from millstream.log import Topic
from millstream.model.errors import MillstreamError


@dataclass(frozen=True, slots=True)
class Inserting:
    """Each method returns how many rows were accepted."""

    catalog: Catalog

    def insert(self, name: str, rows: Rows, message_ids: MessageIds | None) -> int:
        """Append rows to a stream, or to the changes of a table."""
        return self.insert_into(self.catalog.stream(name), rows, message_ids)

    def insert_into(self, entry: StreamEntry, rows: Rows, message_ids: MessageIds | None = None) -> int:
        """Append rows to a stream that was looked up before."""
        topic = self._topic(entry)
        return self._append(entry, topic, to_table(rows, entry.stream.schema, entry.name), message_ids)

    def delete(self, name: str, keys: Rows, message_ids: MessageIds | None) -> int:
        """Append tombstones of keys to the changes of a table."""
        return self.delete_from(find_table(self.catalog, name), keys, message_ids)

    def delete_from(self, entry: StreamEntry, keys: Rows, message_ids: MessageIds | None = None) -> int:
        """Append tombstones to the changes of a table that was looked up before."""
        topic = self._topic(entry)
        table = to_table(keys, entry.stream.schema, entry.name)
        return self._append(entry, topic, tombstones(entry.stream, table), message_ids)

    def insert_lines(self, name: str, lines: Lines, message_ids: MessageIds | None) -> int:
        """Append lines that are decoded when they are processed."""
        entry = self.catalog.stream(name)
        return self._append(entry, self._topic(entry), raw_table(lines), message_ids)

    def _topic(self, entry: StreamEntry) -> Topic:
        """Where the rows of a stream or table land, if it takes any."""
        if entry.topic is None or not entry.connector.takes_rows:
            raise MillstreamError(
                "NOT_INSERTABLE",
                f"{entry.name} reads from {entry.options.source!r}: rows cannot be inserted or deleted",
                hint="a stream or table with source = 'log' takes them",
            )
        return entry.topic

    def _append(self, entry: StreamEntry, topic: Topic, rows: pa.Table, message_ids: MessageIds | None) -> int:
        if rows.num_rows == 0:
            return 0
        if isinstance(message_ids, str) or any(not isinstance(i, str | None) for i in message_ids or ()):
            raise MillstreamError("BAD_ROWS", "message_ids is a list of texts, one a row")
        # What is not decoded yet has no key yet.
        keys = () if "_raw" in rows.column_names else entry.stream.primary_key or entry.options.partition_keys
        # A topic of its own is closed with the stream; one that others read has to be asked about.
        self._check_there(entry)
        try:
            return topic.append(rows, keys=keys, message_ids=message_ids).rows
        except MillstreamError:
            self._check_there(entry)
            raise

    def _check_there(self, entry: StreamEntry) -> None:
        if not self.catalog.has(entry):
            kind = "table" if entry.is_table else "stream"
            raise MillstreamError(
                "UNKNOWN_STREAM",
                f"{kind} {entry.name} was dropped while rows were on their way",
                hint="nothing of this was accepted",
            )
