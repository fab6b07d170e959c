"""The commands that define things: streams, tables, views, functions and sinks.

What always holds: each is one transaction, and what the writer knows of what was there before is forgotten after it.
The view kinds own their tables; see `maintainers`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import duckdb
import pyarrow as pa

from millstream.duck import quote
from millstream.duck.functions import remove_user_function
from millstream.plan.nodes import QueryView, ViewPlan
from millstream.store.commands import (
    ChangeStream,
    ChangeView,
    CreateFunction,
    CreateSink,
    CreateStream,
    CreateView,
    Definition,
    Drop,
    DropFunction,
    DropSink,
)
from millstream.store.duckdb import catalog
from millstream.store.duckdb.changelog import fold_in, write_out
from millstream.store.duckdb.completeness import forget_completeness
from millstream.store.duckdb.connection import column_types, tables_of
from millstream.store.duckdb.failures import forget_failures
from millstream.store.duckdb.letters import create_letters, drop_letters, drop_letters_for
from millstream.store.duckdb.maintainers import maintainer
from millstream.store.duckdb.naming import check_columns, columns_of, internal, public
from millstream.store.duckdb.query import QueryMaintainer
from millstream.store.duckdb.shelves import may_share
from millstream.store.duckdb.sinks import create_sink, drop_sink
from millstream.store.duckdb.table import Table
from millstream.store.duckdb.writer import Writer


class Definitions:
    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def apply(self, command: Definition) -> None:
        match command:
            case CreateStream():
                self._create_stream(command)
            case ChangeStream(name, statement, files):
                with self._writer.transaction() as txn:
                    catalog.change_statement(txn, name, statement)
                    catalog.skip_files(txn, name, files)
            case CreateView():
                self._create_view(command)
            case ChangeView():
                self._change_view(command)
            case Drop(names, letters_of):
                with self._writer.undisturbed() as txn:
                    self._drop_parts(txn, names, letters_of)
                self._writer.forget(names)
            case CreateFunction(name, statement, now):
                with self._writer.transaction() as txn:
                    catalog.remember(txn, catalog.function_key(name), "function", statement, now)
            case DropFunction(name):
                with self._writer.transaction() as txn:
                    catalog.forget(txn, catalog.function_key(name))
                remove_user_function(self._writer.connection, name)
            case CreateSink():
                # Retention that is under way does not know of it.
                with self._writer.undisturbed() as txn:
                    create_sink(txn, command)
            case DropSink(name):
                with self._writer.transaction() as txn:
                    drop_sink(txn, name)

    # -- streams and tables --------------------------------------------------------------------

    def _create_stream(self, create: CreateStream) -> None:
        stream, is_table = create.stream, bool(create.stream.primary_key)
        if is_table:
            check_columns(stream.name, stream.schema.names())
        gone = [] if create.instead_of is None else [create.instead_of]
        kind = "table" if is_table else "stream"
        with self._writer.undisturbed() if gone else self._writer.transaction() as txn:
            for name in gone:
                self._drop_relation(txn, name)
            catalog.remember(txn, stream.name, kind, create.statement, create.now, create.incarnation)
            create_letters(txn, stream)
            catalog.skip_files(txn, stream.name, create.files)
            if is_table:
                Table(stream).create(txn)
        self._writer.forget(gone)

    # -- views ---------------------------------------------------------------------------------

    def _create_view(self, create: CreateView) -> None:
        plan, history, now, writer = create.plan, create.history, create.now, self._writer
        for part in plan.parts:
            check_columns(plan.view.name, columns_of(part))
        with writer.undisturbed() if create.instead_of else writer.transaction() as txn:
            self._drop_parts(txn, create.instead_of, create.letters_of)
            catalog.remember(txn, plan.view.name, create.kind, create.statement, now, create.incarnation)
            self._create_parts(txn, plan, create.deltas, now)
            for part in plan.on_spark:
                writer.progress.save_new(txn, part.name, history.get(part.name))
                if may_share(part) and part.name not in history:
                    writer.shelves.put(part)
        writer.forget(create.instead_of)
        for part in plan.parts:
            writer.progress.note(part.name, "view", history.get(part.name))

    def _create_parts(
        self, txn: duckdb.DuckDBPyConnection, plan: ViewPlan, deltas: Mapping[str, pa.Schema], now: int
    ) -> None:
        for part in plan.parts:
            if isinstance(part, QueryView):
                QueryMaintainer(part).create(txn, self._writer.epoch, now)
            else:
                maintainer(part).create(txn, deltas[part.name], self._writer.epoch, now)

    def preview(
        self, plan: ViewPlan, deltas: Mapping[str, pa.Schema], now: int, instead_of: Sequence[str]
    ) -> pa.Schema:
        """The columns that a view would have. It is created in a transaction that is rolled back."""
        for part in plan.parts:
            check_columns(plan.view.name, columns_of(part))
        try:
            with self._writer.undisturbed() as txn:
                self._drop_parts(txn, instead_of)
                self._create_parts(txn, plan, deltas, now)
                raise _PreviewedError(txn.sql(f"SELECT * FROM {public(plan.view.name)} LIMIT 0").to_arrow_table())
        except _PreviewedError as previewed:
            return previewed.rows.schema

    def _change_view(self, change: ChangeView) -> None:
        old, new, writer = change.old, change.new, self._writer
        name = new.view.name
        if not writer.shelves.suits(new.view):
            writer.take_from_shelves([name])
        # Retention works on changelogs, which may become others here.
        with writer.undisturbed() as txn:
            self._drop_parts(txn, change.ending, change.letters_of)
            catalog.change_statement(txn, name, change.statement)
            if old.view.only_grows != new.view.only_grows:
                own = ", ".join(quote(column) for column in column_types(txn, public(name)))
                if new.view.only_grows:
                    fold_in(txn, name, internal(name, "rows"), own)
                else:
                    write_out(txn, name, own)
        writer.forget(change.ending)
        writer.writing.forget(*(part.name for part in new.parts))
        writer.put_on_shelves([new.view])

    # -- dropping ------------------------------------------------------------------------------

    def _drop_parts(self, txn: duckdb.DuckDBPyConnection, names: Sequence[str], letters_of: Sequence[str] = ()) -> None:
        for name in names:
            self._drop_relation(txn, name)
        drop_letters_for(txn, letters_of, names)

    def _drop_relation(self, txn: duckdb.DuckDBPyConnection, name: str) -> None:
        txn.execute(f"DROP VIEW IF EXISTS {public(name)}")
        drop_letters(txn, name)
        for suffix, kind in tables_of(txn, name).items():
            txn.execute(f"DROP {kind} {internal(name, suffix)}")
        self._writer.shelves.drop(name)
        catalog.forget(txn, name)
        txn.execute("DELETE FROM ms.progress WHERE name = ?", [name])
        forget_failures(txn, [name])
        txn.execute("DELETE FROM ms.files WHERE stream = ?", [name])
        forget_completeness(txn, name)
        txn.execute("DELETE FROM ms.cleaned WHERE view = ?", [name])


class _PreviewedError(Exception):
    """Rolls back what was created to be looked at."""

    def __init__(self, rows: pa.Table) -> None:
        self.rows = rows
