"""A view that was built anew takes the place of the old one, inside an epoch's transaction.

The new contents were built under another name (`Swap.built`). What always holds afterwards: the
view has the new contents under its own name, `removed` and `added` hold the difference for those who
read it, and the changelog, replayed, leads to the new contents. It goes on where it was, unless the
columns are others: then it begins anew.
"""

from __future__ import annotations

from dataclasses import dataclass

import duckdb

from millstream.duck import quote
from millstream.plan.identities import add_op, identity
from millstream.plan.nodes import AggregateView, Part, QueryView, TopView
from millstream.store.commands import Swap
from millstream.store.duckdb.append import Append
from millstream.store.duckdb.changelog import (
    ADD,
    EARLY,
    LATE,
    REMOVE,
    create_changelog,
    derive_changelog,
    fold_in,
    header,
    kept_past,
    noted,
    write_out,
)
from millstream.store.duckdb.completeness import forget_completeness
from millstream.store.duckdb.connection import column_types, tables_of
from millstream.store.duckdb.deltas import has_rows, is_changed, removing
from millstream.store.duckdb.letters import drop_letters_for
from millstream.store.duckdb.maintainers import maintainer_of
from millstream.store.duckdb.moment import Moment
from millstream.store.duckdb.naming import added, internal, literal, public, removed
from millstream.store.duckdb.query import QueryMaintainer


@dataclass(frozen=True, slots=True)
class Swapping:
    """One swap, being carried out."""

    connection: duckdb.DuckDBPyConnection
    swap: Swap
    at: Moment

    def run(self) -> bool:
        """Put the new contents in place; whether readers see a difference."""
        self._compare()
        if self._keeps_rows():
            self._apply()
        else:
            self._exchange()
        self._move_parts()
        self._move_letters()
        self._move_completeness()
        name = self.swap.new.view.name
        return is_changed(self.connection, name)

    @property
    def _old(self) -> Part:
        return self.swap.old.view

    @property
    def _new(self) -> Part:
        return self.swap.new.view

    @property
    def _name(self) -> str:
        return self._new.name

    @property
    def _built(self) -> str:
        """What the new view is called until now."""
        return self.swap.built[-1]

    @property
    def _own(self) -> str:
        return ", ".join(quote(name) for name, _ in self._columns(public(self._name)))

    # -- the difference ------------------------------------------------------------------------

    def _columns(self, relation: str) -> list[tuple[str, str]]:
        return list(column_types(self.connection, relation).items())

    def _same_columns(self) -> bool:
        return self._columns(public(self._name)) == self._columns(public(self._built))

    def _keeps_rows(self) -> bool:
        """Whether the rows that both have stay as they are, with their epochs."""
        return self._same_columns() and self._same_rows()

    def _same_rows(self) -> bool:
        """Whether both are kept as bags of the same rows, so that the old bag can become the new one."""
        old, new = self._old, self._new
        if isinstance(old, AggregateView | TopView) or type(old) is not type(new):
            return False
        bags = internal(self._name, "rows"), internal(self._built, "rows")
        return self._columns(bags[0]) == self._columns(bags[1])

    def _compare(self) -> None:
        """What is lost and what is gained, by the columns that both have."""
        old, new = public(self._name), public(self._built)
        extra, names = "", ""
        if self._same_columns():
            names = self._own
            if self._keeps_rows():
                maintainer = maintainer_of(self._new)
                assert isinstance(maintainer, Append | QueryMaintainer)
                names = ", ".join(maintainer.kept)
                old, new = internal(self._name, "rows"), internal(self._built, "rows")
                extra = f"CAST({self.at.epoch} AS BIGINT) AS __epoch, CAST({self.at.now} AS BIGINT) AS __at, "
        else:
            there = self._columns(new)
            names = ", ".join(quote(name) for name, type_ in self._columns(old) if (name, type_) in there) or "1 AS __"
        # In tables that are exchanged every row comes with this epoch, so to readers all that were there are gone.
        all_new = self._new.only_grows and not self._keeps_rows()
        for table, more, less, head in (
            (removed(self._name), old, new, ""),
            (added(self._name), new, old, extra),
        ):
            difference = f"SELECT {names} FROM {more}"
            if not all_new:
                difference += f" EXCEPT ALL SELECT {names} FROM {less}"
            self.connection.execute(f"CREATE OR REPLACE TEMP TABLE {table} AS SELECT {head}* FROM ({difference})")

    # -- contents and changelog ----------------------------------------------------------------

    def _apply(self) -> None:
        """Bring the old rows to the new ones by the difference: every other row stays as it is, with its epoch."""
        connection, name, own = self.connection, self._name, self._own
        rows = internal(name, "rows")
        maintainer = maintainer_of(self._new)
        assert isinstance(maintainer, Append | QueryMaintainer)
        if self._old.only_grows and not self._new.only_grows:
            write_out(connection, name, own)
        if not self._old.only_grows and self._new.only_grows:
            fold_in(connection, name, rows, own)
        gone = removed(name)
        if self._new.only_grows:
            if has_rows(connection, gone):
                with kept_past(connection, name, own, rows, self.at):
                    connection.execute(removing(rows, maintainer.kept, gone))
        else:
            connection.execute(removing(rows, maintainer.kept, gone))
            self._log(gone, added(name))
        connection.execute(f"INSERT INTO {rows} BY NAME SELECT * FROM {added(name)}")

    def _exchange(self) -> None:
        """Put the new tables in the place of the old ones."""
        connection, name = self.connection, self._name
        continues = self._same_columns()
        own = ", ".join(quote(n) for n, _ in self._columns(public(self._built)))
        if continues:
            if self._old.only_grows:
                write_out(connection, name, own)
            if self._new.only_grows:
                # Its rows are all derived as inserted now.
                self._log(public(name), None)
            else:
                self._log(removed(name), added(name))
        connection.execute(f"DROP VIEW {public(name)}")
        self._drop_tables(name, keep=("changes",) if continues else ())
        self._drop_tables(self._built, only=("changes", "past"))
        connection.execute(f"DROP VIEW {public(self._built)}")
        self._rename(self._built, name)
        maintainer_of(self._new).show(connection)
        if self._new.only_grows:
            rows = internal(name, "rows")
            connection.execute(f"UPDATE {rows} SET __epoch = {self.at.epoch}, __at = {self.at.now}")
            if continues:
                fold_in(connection, name, rows, own)
            else:
                derive_changelog(connection, name, rows, own)
        elif not continues:
            create_changelog(connection, name, public(name))
            self._log(None, public(name))
        if not continues:
            connection.execute("DELETE FROM ms.cleaned WHERE view = ?", [name])
            connection.execute("INSERT INTO ms.cleaned VALUES (?, ?)", [name, self.at.epoch - 1])

    def _log(self, gone: str | None, come: str | None) -> None:
        """Say in the changelog what went and what came."""
        connection, old, new = self.connection, self._old, self._new
        if gone is not None and come is not None and (add_op(old), identity(old)) != (add_op(new), identity(new)):
            # A reader replays by another rule from now on: nothing of the old may be left over.
            gone, come = public(self._name), public(self._built)
        own = ", ".join(quote(n) for n, _ in self._columns(come or gone or public(self._name)) if n[:2] != "__")
        closes = not isinstance(new, QueryView) and new.windows_close
        pane = LATE if closes else EARLY
        if gone is not None:
            op, unless = "retract", ""
            if add_op(old) == "upsert":
                op = "delete"
                if come is not None and add_op(new) == "upsert":
                    unless = self._replaced(come)
            head = header(self.at, REMOVE, op, pane)
            connection.execute(noted(self._name, head, f"{own} FROM {gone} g{unless}"))
        if come is not None:
            connection.execute(noted(self._name, header(self.at, ADD, add_op(new), pane), f"{own} FROM {come}"))

    def _replaced(self, come: str) -> str:
        """Leave out rows that an upsert replaces."""
        names = identity(self._new)
        one = isinstance(self._new, AggregateView) and self._new.is_global
        if (not names and not one) or names != identity(self._old):
            return ""
        same = " AND ".join(f"c.{quote(n)} IS NOT DISTINCT FROM g.{quote(n)}" for n in names)
        return f" WHERE NOT EXISTS (SELECT 1 FROM {come} c WHERE {same or 'true'})"

    # -- names ---------------------------------------------------------------------------------

    def _move_parts(self) -> None:
        """Hidden parts: those that were kept or built get their names, the others go."""
        connection = self.connection
        moves = list(zip(self.swap.built, self.swap.new.parts, strict=True))[:-1]
        for name in self.swap.gone:
            if name != self._name:
                connection.execute(f"DROP VIEW {public(name)}")
                self._drop_tables(name)
        moves = [(source, part) for source, part in moves if source != part.name]
        for index, (source, _) in enumerate(moves):
            # By way of other names: one part may get the name that another still has.
            connection.execute(f"DROP VIEW {public(source)}")
            self._rename(source, f"{self._built}~{index}")
        for index, (_, part) in enumerate(moves):
            self._rename(f"{self._built}~{index}", part.name)
            maintainer_of(part).show(connection)
        self._drop_tables(self._built)
        connection.execute(f"DROP VIEW IF EXISTS {public(self._built)}")

    def _drop_tables(self, name: str, *, keep: tuple[str, ...] = (), only: tuple[str, ...] | None = None) -> None:
        for suffix, kind in tables_of(self.connection, name).items():
            if suffix not in keep and (only is None or suffix in only):
                self.connection.execute(f"DROP {kind} {internal(name, suffix)}")

    def _rename(self, source: str, target: str) -> None:
        for suffix in tables_of(self.connection, source):
            self.connection.execute(f"ALTER TABLE {internal(source, suffix)} RENAME TO {quote(f'{target}.{suffix}')}")

    def _move_completeness(self) -> None:
        """What is known of the windows goes with them."""
        for name in self.swap.gone:
            forget_completeness(self.connection, name)
        for source, part in zip(self.swap.built, self.swap.new.parts, strict=True):
            if source != part.name:
                self.connection.execute("UPDATE ms.completeness SET view = ? WHERE view = ?", [part.name, source])

    def _move_letters(self) -> None:
        """Late and failed rows of the old contents go with them; those of the new ones get the view's name."""
        connection = self.connection
        streams = dict.fromkeys((*self.swap.old.streams, *self.swap.new.streams))
        drop_letters_for(connection, streams, self.swap.gone)
        moves = [(source, part.name) for source, part in zip(self.swap.built, self.swap.new.parts, strict=True)]
        names = " ".join(f"WHEN {literal(source)} THEN {literal(target)}" for source, target in moves)
        listed = ", ".join(literal(source) for source, _ in moves)
        for stream in streams:
            for kind in ("late", "dead"):
                table = internal(stream, kind)
                connection.execute(f"UPDATE {table} SET __view = CASE __view {names} END WHERE __view IN ({listed})")
