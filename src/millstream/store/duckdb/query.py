"""Views that are computed from other relations of the store, in the same transaction.

The contents are a bag of rows in the table `rows`: the view's columns, `__epoch` and `__at` (when a
row came), `__t` (its instant, where it has one) and, for a view maintained by keys, `__key0`… What
always holds after `maintain`: the contents are what the query gives over its inputs as they are
now, but for rows of bounded joins whose inputs have been let go.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass

import duckdb

from millstream.duck import quote
from millstream.plan.identities import add_op
from millstream.plan.nodes import VERSIONS, Input, Missing, OuterRows, QueryView
from millstream.store.duckdb.changelog import (
    ADD,
    FORGET,
    LATE,
    REMOVE,
    create_changelog,
    derive_changelog,
    header,
    kept_past,
    noted,
)
from millstream.store.duckdb.deltas import extended, removing
from millstream.store.duckdb.moment import NAMED, Moment
from millstream.store.duckdb.naming import added, internal, public, removed
from millstream.store.duckdb.writing import Statements

_PLUS, _MINUS, _KEYS = "temp.__plus", "temp.__minus", "temp.__keys"


@dataclass(frozen=True, slots=True)
class QueryMaintainer:
    view: QueryView

    @property
    def _rows(self) -> str:
        return internal(self.view.name, "rows")

    @property
    def _own(self) -> str:
        return ", ".join(quote(column) for column in self.view.columns)

    @property
    def kept(self) -> list[str]:
        """The columns of a row that are computed: the view's, its key and its instant."""
        keys = [f"__key{index}" for index in range(len(self.view.key))]
        time = ["__t"] if self.view.time is not None else []
        return [*(quote(column) for column in self.view.columns), *keys, *time]

    def create(self, connection: duckdb.DuckDBPyConnection, epoch: int, now: int) -> None:
        """Create the view with what its inputs have now."""
        view = self.view
        relations = {index: _current(input_) for index, input_ in enumerate(view.inputs)}
        for probe in view.probes:
            connection.execute(_filled(probe, relations)).fetchall()
        sql = self._sql(relations)
        kept = ", ".join(self.kept)
        connection.execute(
            f"CREATE TABLE {self._rows} AS SELECT CAST({epoch} AS BIGINT) AS __epoch, CAST({now} AS BIGINT) AS __at, "
            f"{kept} FROM ({sql})"
        )
        self.show(connection)
        if view.only_grows and not view.hidden:
            derive_changelog(connection, view.name, self._rows, self._own)
        elif not view.hidden:
            create_changelog(connection, view.name, public(view.name))
            head = header(Moment(epoch, now), ADD, add_op(view))
            connection.execute(noted(view.name, head, f"{self._own} FROM {self._rows}"))

    def show(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Create what readers see."""
        connection.execute(f"CREATE VIEW {public(self.view.name)} AS SELECT {self._own} FROM {self._rows}")

    def maintain(self, statements: Statements, changed: Set[str]) -> bool:
        """Bring the view up to date with what its inputs lost and gained; whether it changed itself."""
        view = self.view
        touched = [index for index, input_ in enumerate(view.inputs) if input_.relation in changed]
        at = statements.at
        if not touched and not (view.outer and at.after > at.before) and view.retain is None:
            return False
        match view.method:
            case "delta" | "union":
                loses, gains = self._delta(statements, touched, changed)
            case "keyed":
                loses, gains = self._again(statements, touched, by_key=True)
            case "whole":
                loses, gains = self._again(statements, touched, by_key=False)
        return self._publish(statements, loses, gains)

    # -- what changes --------------------------------------------------------------------------

    def _delta(self, statements: Statements, touched: list[int], changed: Set[str]) -> tuple[bool, bool]:
        """The changes of each input, joined with the others: those before it as they are now, those after it as
        they were. Inputs that can lose rows come first, because as they were is costly for them."""
        view = self.view
        order = sorted(range(len(view.inputs)), key=lambda index: view.inputs[index].append_only)
        plus: list[str] = []
        minus: list[str] = []
        for index in touched:
            relations: dict[int, str] = {}
            for other, input_ in enumerate(view.inputs):
                if view.method == "union":
                    relations[other] = f"(SELECT * FROM {_current(input_)} LIMIT 0)"
                elif order.index(other) < order.index(index) or input_.relation not in changed:
                    relations[other] = _current(input_)
                else:
                    relations[other] = _before(input_)
            input_ = view.inputs[index]
            if input_.optional is not None:
                self._optional_delta(statements, index, relations, plus, minus)
                continue
            plus.append(self._sql({**relations, index: added(input_.relation)}))
            if statements.count(removed(input_.relation)):
                minus.append(self._sql({**relations, index: removed(input_.relation)}))
        for rows in view.outer:
            self._outer(rows, statements.at, changed, plus, minus)
        return self._settle(statements, plus, minus)

    def _optional_delta(
        self,
        statements: Statements,
        index: int,
        relations: dict[int, str],
        plus: list[str],
        minus: list[str],
    ) -> None:
        """The optional side of a LEFT JOIN changed: the rows that it may belong to, computed as before and as now."""
        input_ = self.view.inputs[index]
        side = input_.optional
        assert side is not None
        keys = f"temp.__keys{index}"
        columns = ", ".join(f"{quote(c)} AS __k{i}" for i, c in enumerate(side.columns))
        statements.make(
            keys,
            f"SELECT DISTINCT {columns} FROM "
            f"(SELECT * FROM {removed(input_.relation)} UNION ALL BY NAME SELECT * FROM {added(input_.relation)})",
        )
        mine = _among(relations[side.to], side.to_columns, keys)
        now = _among(_current(input_), side.columns, keys)
        before = _among(_before(input_), side.columns, keys)
        plus.append(self._sql({**relations, side.to: mine, index: now}))
        minus.append(self._sql({**relations, side.to: mine, index: before}))

    def _outer(self, rows: OuterRows, at: Moment, changed: Set[str], plus: list[str], minus: list[str]) -> None:
        """Rows of a bounded outer join that lack partners, once no partner can come any more."""
        view = self.view
        aliases = [quote(alias) for alias in view.aliases]
        present = [aliases[index] for index in rows.present]
        outputs = ", ".join(f"{sql} AS {quote(column)}" for sql, column in zip(rows.outputs, view.columns, strict=True))
        if view.time is not None:
            outputs += f", {_call('greatest', [f'{alias}.__t' for alias in present])} AS __t"
        joined = " CROSS JOIN ".join(f"{_current(view.inputs[index])} AS {aliases[index]}" for index in rows.present)
        for missing in rows.missing:
            nothing = f"(SELECT * FROM {_current(view.inputs[missing.input])} LIMIT 0)"
            joined += f" LEFT JOIN {nothing} AS {aliases[missing.input]} ON true"
        newest = _call("greatest", [f"{alias}.__epoch" for alias in present])
        instants = [_call("least", [f"{aliases[i]}.__t + {after}" for i, after in ways]) for ways in rows.settled]
        settled = _call("greatest", instants)

        def has_partner(missing: Missing, relation: str) -> str:
            return f"EXISTS (SELECT 1 FROM {relation} AS {aliases[missing.input]} WHERE {missing.on})"

        def select(*conditions: str) -> str:
            return f"SELECT {outputs} FROM {joined} WHERE {' AND '.join((*rows.conditions, *conditions))}"

        grows = any(view.inputs[index].relation in changed for index in rows.present)
        if grows or at.after > at.before:
            due = f"{settled} <= {NAMED.after}"
            is_new = f"({settled} > {NAMED.before} OR {newest} = {NAMED.epoch})"
            lacks = (f"NOT {has_partner(m, _current(view.inputs[m.input]))}" for m in rows.missing)
            plus.append(select(due, is_new, *lacks))
        come = [m for m in rows.missing if view.inputs[m.input].relation in changed]
        if come:
            # A partner that came late, but not too late, for rows that were already shown without it.
            shown = f"{settled} <= {NAMED.before} AND {newest} < {NAMED.epoch}"
            before = {m: _before(view.inputs[m.input]) for m in come}
            lacked = (f"NOT {has_partner(m, before.get(m) or _current(view.inputs[m.input]))}" for m in rows.missing)
            found = " OR ".join(has_partner(m, added(view.inputs[m.input].relation)) for m in come)
            minus.append(select(shown, *lacked, f"({found})"))

    def _again(self, statements: Statements, touched: list[int], *, by_key: bool) -> tuple[bool, bool]:
        """The query again, as a whole or for the keys that changed, against what it gave before."""
        view, kept = self.view, ", ".join(self.kept)
        if not by_key:
            sql = self._sql({index: _current(input_) for index, input_ in enumerate(view.inputs)})
            return self._settle(statements, [sql], [f"SELECT {kept} FROM {self._rows}"])
        keys = []
        for index in touched:
            input_ = view.inputs[index]
            columns = ", ".join(f"{quote(c)} AS __key{i}" for i, c in enumerate(input_.key))
            keys += [f"SELECT {columns} FROM {side(input_.relation)}" for side in (removed, added)]
        statements.make(_KEYS, " UNION ".join(keys))
        relations = {
            index: _among(_current(input_), input_.key, _KEYS, "__key") for index, input_ in enumerate(view.inputs)
        }
        names = tuple(f"__key{index}" for index in range(len(view.key)))
        old = f"SELECT {kept} FROM {_among(self._rows, names, _KEYS, '__key')}"
        return self._settle(statements, [self._sql(relations)], [old])

    def _settle(self, statements: Statements, plus: list[str], minus: list[str]) -> tuple[bool, bool]:
        """Net what comes and what goes into the view's own changes; whether it loses rows, and whether it gains any."""
        kept = ", ".join(self.kept)
        name = self.view.name
        empty = f"SELECT {kept} FROM {self._rows} LIMIT 0"

        def collected(queries: list[str]) -> str:
            return " UNION ALL ".join(f"(SELECT {kept} FROM ({sql}))" for sql in queries) or empty

        if not minus:
            statements.make(removed(name), empty)
            return False, statements.make(added(name), collected(plus)) > 0
        statements.make(_PLUS, collected(plus))
        statements.make(_MINUS, collected(minus))
        loses, gains = (
            statements.make(table, f"SELECT * FROM {more} EXCEPT ALL SELECT * FROM {less}") > 0
            for table, more, less in ((removed(name), _MINUS, _PLUS), (added(name), _PLUS, _MINUS))
        )
        for table in (_PLUS, _MINUS):
            statements.writing.connection.execute(f"DROP TABLE {table}")
        return loses, gains

    # -- what is published ---------------------------------------------------------------------

    def _publish(self, statements: Statements, loses: bool, gains: bool) -> bool:
        view, gone, come = self.view, removed(self.view.name), added(self.view.name)
        remove = removing(self._rows, self.kept, gone)
        if loses and view.only_grows and not view.hidden:
            # It can lose rows after all, when a relation that it reads was built anew.
            with kept_past(statements.writing.connection, view.name, self._own, self._rows, statements.at):
                statements.execute(remove)
        elif loses:
            statements.execute(remove)
        if gains:
            statements.execute(
                f"INSERT INTO {self._rows} BY NAME SELECT {NAMED.epoch} AS __epoch, {NAMED.now} AS __at, * FROM {come}"
            )
        if not view.hidden and not view.only_grows:
            self._log(statements, loses, gains)
        return self._forget(statements) or loses or gains

    def _log(self, statements: Statements, loses: bool, gains: bool) -> None:
        view, gone, come = self.view, removed(self.view.name), added(self.view.name)
        if loses:
            refined = add_op(self.view) == "upsert"
            op = "delete" if refined else "retract"
            unless = ""
            if refined:
                same = " AND ".join(f"c.{quote(n)} IS NOT DISTINCT FROM g.{quote(n)}" for n in view.identity)
                unless = f" WHERE NOT EXISTS (SELECT 1 FROM {come} c WHERE {same})"
            statements.execute(noted(view.name, header(NAMED, REMOVE, op), f"{self._own} FROM {gone} g{unless}"))
        if gains:
            statements.execute(noted(view.name, header(NAMED, ADD, add_op(view)), f"{self._own} FROM {come}"))

    def _forget(self, statements: Statements) -> bool:
        """Drop what is older than the view retains, and say so in the changelog."""
        view = self.view
        if view.retain is None:
            return False
        by_time = f"__t <= {NAMED.after} - {view.retain}" if view.time is not None else "NULL"
        old = f"FROM {self._rows} WHERE coalesce({by_time}, __at <= {NAMED.now} - {view.retain})"
        gone = removed(view.name)
        loses = statements.make(gone, extended(gone, f"SELECT {', '.join(self.kept)} {old}")) > 0
        if not view.hidden:
            head = header(NAMED, FORGET, "retract", LATE, final="true")
            statements.execute(noted(view.name, head, f"{self._own} {old}"))
        statements.execute(f"DELETE {old}")
        return loses

    def _sql(self, relations: dict[int, str]) -> str:
        return _filled(self.view.sql, relations)


def _filled(sql: str, relations: dict[int, str]) -> str:
    """SQL over inputs, with relations in their places."""
    for index, relation in relations.items():
        sql = sql.replace(f'"__in{index}"', relation)
    return sql


def _current(input_: Input) -> str:
    """A relation as it is now, in the middle of the epoch. One that only grows shows when each row came."""
    return internal(input_.relation, "rows") if input_.append_only else _readable(input_.relation)


def _readable(relation: str) -> str:
    if relation.endswith(VERSIONS):
        return internal(relation.removesuffix(VERSIONS), VERSIONS[1:])
    return public(relation)


def _before(input_: Input) -> str:
    """A relation as it was before the epoch."""
    if input_.append_only:
        # It loses rows only when it is built anew.
        older = f"SELECT * FROM {internal(input_.relation, 'rows')} WHERE __epoch < {NAMED.epoch}"
        return f"({older} UNION ALL BY NAME SELECT * FROM {removed(input_.relation)})"
    columns = ", ".join(quote(column) for column in input_.columns) or "1 AS __"
    now, come, gone = _readable(input_.relation), added(input_.relation), removed(input_.relation)
    return (
        f"(SELECT {columns} FROM {now} EXCEPT ALL SELECT {columns} FROM {come} UNION ALL SELECT {columns} FROM {gone})"
    )


def _call(function: str, arguments: Sequence[str]) -> str:
    return arguments[0] if len(arguments) == 1 else f"{function}({', '.join(arguments)})"


def _among(relation: str, columns: Iterable[str], keys: str, prefix: str = "__k") -> str:
    """The rows of a relation whose columns are among keys."""
    same = " AND ".join(f"r.{quote(column)} IS NOT DISTINCT FROM k.{prefix}{i}" for i, column in enumerate(columns))
    return f"(SELECT r.* FROM {relation} r SEMI JOIN {keys} k ON {same})"
