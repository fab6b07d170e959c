"""What readers ask of the store: queries, columns, changelogs, epoch records.

Each question has a cursor of its own and sees one epoch whole, whatever the writer is doing. Owns how StreamSQL
becomes DuckDB's SQL here, `FOR SYSTEM_TIME AS OF` included. Must not change anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import duckdb
import pyarrow as pa
from sqlglot import exp

from millstream.duck import store_sql, with_truths
from millstream.model.errors import MillstreamError
from millstream.model.progress import Totals
from millstream.store.duckdb.changelog import read_changes_sql, through_sql
from millstream.store.duckdb.connection import store_error
from millstream.store.duckdb.naming import internal, listed, public

_EPOCHS = """
SELECT epoch, make_timestamp(committed_at) AS committed_at, rows_in, rows_decoded, rows_dead, rows_used,
       rows_filtered, rows_late, rows_failed, offsets, watermarks, streams, views, timings
FROM ms.epochs WHERE epoch > {since} ORDER BY epoch
"""
SUMMED = ("rows_in", "rows_late", "rows_dead", "rows_failed")
"""The counts of all epochs that `totals` adds up; `ms.thinned` has those of epochs whose records are gone."""
_TOTALS = f"""
SELECT max(committed_at), {", ".join(f"coalesce(sum({column}), 0)::BIGINT" for column in SUMMED)} FROM (
    SELECT committed_at, {", ".join(SUMMED)} FROM ms.epochs UNION ALL SELECT NULL, {", ".join(SUMMED)} FROM ms.thinned)
"""


class Reading:
    def __init__(self, cursor: Callable[[], duckdb.DuckDBPyConnection]) -> None:
        self._cursor = cursor

    @contextmanager
    def cursor(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A cursor for a while; store errors come out as ours."""
        with closing(self._cursor()) as cursor:
            try:
                yield cursor
            except duckdb.Error as error:
                raise store_error(error) from None

    def sql(self, sql: str) -> pa.Table:
        """Run DuckDB's own SQL."""
        with self.cursor() as cursor:
            return cursor.sql(sql).to_arrow_table()

    def read(self, query: exp.Query) -> tuple[pa.Table, int]:
        sql = self._printed(query)
        with self.cursor() as cursor:
            # One transaction, or an epoch could be committed between the two.
            cursor.execute("BEGIN")
            ((last,),) = cursor.execute("SELECT coalesce(max(epoch), 0) FROM ms.epochs").fetchall()
            return cursor.sql(sql).to_arrow_table(), last

    def check(self, query: exp.Query) -> None:
        self.sql(f"DESCRIBE {self._printed(query)}")

    def _printed(self, query: exp.Query) -> str:
        query = query.copy()
        self._put_versions(query)
        return store_sql(with_truths(query))

    def _put_versions(self, query: exp.Query) -> None:
        """Put the versions of an instant in the place of tables that are asked for as of it."""
        for table in list(query.find_all(exp.Table)):
            version = table.args.get("version")
            if version is None:
                continue
            instant = f"epoch_us(CAST({version.expression.sql(dialect='duckdb')} AS TIMESTAMP))"
            columns, rows = listed(self.columns(table.name).names), internal(table.name, "versions")
            versions: exp.Select = exp.maybe_parse(
                f"SELECT {columns} FROM {rows} WHERE __from <= {instant} AND {instant} < __to", dialect="duckdb"
            )
            table.replace(versions.subquery(table.alias_or_name))

    def columns(self, relation: str) -> pa.Schema:
        return self.sql(f"SELECT * FROM {public(relation)} LIMIT 0").schema

    def changes(self, view: str, since: int, until: int | None, limit: int | None) -> pa.Table:
        """See `Store.changes`. A view without groups is born with its first row, in epoch 0 of an empty database."""
        columns = self.columns(view).names
        # All at once, or what is removed between them would be missed.
        with self.cursor() as cursor:
            cursor.execute("BEGIN")
            cleaned = cursor.execute("SELECT epoch FROM ms.cleaned WHERE view = ?", [view]).fetchall()
            if cleaned and 0 <= since < cleaned[0][0]:
                raise MillstreamError(
                    "CHANGELOG_GONE",
                    f"the changelog of {view} is kept from epoch {cleaned[0][0] + 1} on",
                    detail=f"epoch {since + 1} was asked for",
                    hint="read the view itself and go on from there; changelog_retain says how long changes are kept",
                )
            if limit is not None:
                ((through,),) = cursor.execute(through_sql(view, since, until, limit)).fetchall()
                until = until if through is None else through
            return cursor.sql(read_changes_sql(view, columns, since, until)).to_arrow_table()

    def epochs(self, since: int) -> pa.Table:
        return self.sql(_EPOCHS.format(since=int(since)))

    def totals(self) -> Totals:
        with self.cursor() as cursor:
            return Totals(*cursor.execute(_TOTALS).fetchall()[0])
