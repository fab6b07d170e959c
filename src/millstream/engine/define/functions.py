"""Users' functions: which there are, and where their Python comes from.

Owns creating, restoring and dropping them. A function comes from a program that passes it
(`Database.create_function`) or from a module that the settings allow (`CREATE FUNCTION … AS
'module:name'`); SQL alone can make no other Python run. After a restart those of modules are there
again, and those of programs are missing until the program passes them again.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from sqlglot import exp

from millstream.model.errors import MillstreamError, Position, UnavailableError, did_you_mean
from millstream.model.schema import check_name, sql_type
from millstream.model.user_functions import UserFunction
from millstream.plan.compute import Compute
from millstream.sql import called_names, parse_statement, render
from millstream.sql.allowlist import AGGREGATE_EXAMPLES, CLOCKS, ROW_FUNCTIONS, SCALARS, WINDOWED
from millstream.sql.statements import CreateFunction, CreateView, Drop, Select
from millstream.sql.user_calls import bind_calls
from millstream.store import commands
from millstream.store.protocol import Store

_BUILT_IN = {*SCALARS, *AGGREGATE_EXAMPLES, *WINDOWED, *ROW_FUNCTIONS, *CLOCKS}


@dataclass(frozen=True, slots=True)
class FunctionEntry:
    statement: CreateFunction
    function: UserFunction | None
    """None while it is missing."""
    reason: str | None = None

    @property
    def name(self) -> str:
        return self.statement.name

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return tuple(column.type for column in self.statement.arguments.columns)


class Functions:
    """The functions of one database, by name in any case."""

    def __init__(
        self,
        store: Store,
        compute: Compute,
        modules: tuple[str, ...],
        views: Callable[[], Iterable[CreateView]],
    ) -> None:
        self._store = store
        self._compute = compute
        self._modules = modules
        self._views = views
        self._entries: dict[str, FunctionEntry] = {}

    def __iter__(self) -> Iterator[FunctionEntry]:
        return iter(sorted(self._entries.values(), key=lambda entry: entry.name.lower()))

    def find(self, name: str) -> FunctionEntry | None:
        return self._entries.get(name.lower())

    def names(self) -> frozenset[str]:
        return frozenset(self._entries)

    # -- making --------------------------------------------------------------------------------

    def create(self, create: CreateFunction, function: Callable[..., Any] | None, now: int) -> bool:
        """Create a function, from its module unless it is passed; False if it was there and that is fine.

        One that views use is replaced by another of the same types. What was computed ahead must then be discarded.
        """
        existing = self.find(create.name)
        returning = (
            existing is not None and existing.function is None and function is not None and _like(existing, create)
        )
        if existing is not None and not returning:
            if create.if_not_exists:
                return False
            if not create.or_replace:
                raise MillstreamError(
                    "ALREADY_EXISTS",
                    f"function {create.name!r} exists already",
                    hint="drop it first, or use OR REPLACE",
                    position=create.position,
                )
            self._check_types(existing, create)
        self._check_name(create)
        made = self._made(create, function if function is not None else self._imported(create))
        made.try_out()
        statement = replace(create, or_replace=False, if_not_exists=False)
        if not returning:
            self._store.apply(commands.CreateFunction(create.name, render(statement), now))
        self._put(FunctionEntry(statement, made))
        return True

    def restore(self, create: CreateFunction) -> None:
        """A function that the catalog knows, as far as it can be had."""
        try:
            if create.source is None:
                raise MillstreamError("FUNCTION_MISSING", "it was passed by a program")
            self._put(FunctionEntry(create, self._made(create, self._imported(create))))
        except MillstreamError as error:
            self._entries[create.name.lower()] = FunctionEntry(create, None, error.message)

    def _put(self, entry: FunctionEntry) -> None:
        assert entry.function is not None
        self._store.register_function(entry.function)
        self._entries[entry.name.lower()] = entry
        self._compute.use_functions([each.function for each in self if each.function is not None])

    def _made(self, create: CreateFunction, function: Callable[..., Any]) -> UserFunction:
        types = tuple(column.type for column in create.arguments.columns)
        return UserFunction(create.name, types, create.returns, function)

    def _imported(self, create: CreateFunction) -> Callable[..., Any]:
        module, _, name = (create.source or "").partition(":")
        if not module or not name.isidentifier() or name.startswith("_"):
            raise MillstreamError(
                "BAD_FUNCTION",
                f"function {create.name} does not say which Python it is",
                hint="CREATE FUNCTION … AS 'module:name', or pass it with create_function from a program",
                position=create.position,
            )
        if module not in self._modules:
            raise MillstreamError(
                "MODULE_NOT_ALLOWED",
                f"functions may not come from module {module!r}",
                detail=f"allowed: {', '.join(self._modules)}" if self._modules else "no module is allowed",
                hint="name the module in the setting function_modules",
                position=create.position,
            )
        try:
            found = getattr(importlib.import_module(module), name, None)
        except Exception as error:
            raise MillstreamError(
                "BAD_FUNCTION",
                f"module {module!r} cannot be imported",
                detail=f"{type(error).__name__}: {error}",
                position=create.position,
            ) from None
        # What a module merely imported, say from os, is not its own to offer.
        if not callable(found) or getattr(found, "__module__", None) != module:
            raise MillstreamError(
                "BAD_FUNCTION", f"module {module!r} defines no function {name!r}", position=create.position
            )
        function: Callable[..., Any] = found
        return function

    def _check_name(self, create: CreateFunction) -> None:
        check_name(create.name)
        call = parse_statement(f"SELECT `{create.name}`(1)")
        assert isinstance(call, Select)
        known = not isinstance(call.query.selects[0].unalias(), exp.Anonymous)
        plain = parse_statement(f"SELECT {create.name}(1)") if create.name.isidentifier() else None
        if isinstance(plain, Select):
            known = known or not isinstance(plain.query.selects[0].unalias(), exp.Anonymous)
        if known or create.name.lower() in _BUILT_IN:
            raise MillstreamError(
                "RESERVED_NAME",
                f"{create.name!r} is the name of a function of SQL",
                hint="choose another name",
                position=create.position,
            )

    # -- using ---------------------------------------------------------------------------------

    def bind(self, query: exp.Query, text: str, source: str) -> exp.Query:
        """Make the calls of a query, in place, calls of these functions; all of them must be there."""
        for name in called_names(query) & self._entries.keys():
            entry = self._entries[name]
            if entry.function is None:
                raise UnavailableError(
                    "FUNCTION_MISSING",
                    f"function {entry.name!r} is not there",
                    detail=entry.reason,
                    hint="pass it with create_function, as before the restart"
                    if entry.statement.source is None
                    else "make its module available and start again",
                )
        return bind_calls(query, {name: entry.types for name, entry in self._entries.items()}, text=text, source=source)

    # -- dropping and showing ------------------------------------------------------------------

    def drop(self, drop: Drop) -> bool:
        entry = self.find(drop.name)
        if entry is None:
            if drop.if_exists:
                return False
            raise MillstreamError(
                "UNKNOWN_FUNCTION",
                f"there is no function {drop.name!r}",
                hint=did_you_mean(drop.name, self._entries),
                position=drop.position,
            )
        self._check_unused(entry.name, drop.position)
        self._store.apply(commands.DropFunction(entry.name))
        del self._entries[entry.name.lower()]
        return True

    def _check_types(self, existing: FunctionEntry, create: CreateFunction) -> None:
        """A function that views use keeps its types: theirs follow from them."""
        users = self._users(create.name)
        if users and not _same_types(existing, create):
            types = ", ".join(sql_type(type_) for type_ in existing.types)
            kept = f"{create.name}({types}) RETURNS {sql_type(existing.statement.returns)}"
            raise MillstreamError(
                "IN_USE",
                f"function {create.name} is used by {', '.join(users)} and cannot be replaced by one of other types",
                hint=f"keep {kept}, or drop the views first",
                position=create.position,
            )

    def _users(self, name: str) -> list[str]:
        return sorted({view.name for view in self._views() if name.lower() in called_names(view.query)})

    def _check_unused(self, name: str, position: Position | None) -> None:
        users = self._users(name)
        if users:
            raise MillstreamError(
                "IN_USE",
                f"function {name} is used by {', '.join(users)} and cannot be dropped",
                hint="drop the views first",
                position=position,
            )

    def rows(self) -> list[dict[str, Any]]:
        """What SHOW FUNCTIONS shows."""
        return [
            {
                "name": entry.name,
                "arguments": ", ".join(sql_type(type_) for type_ in entry.types),
                "returns": sql_type(entry.statement.returns),
                "source": entry.statement.source or "program",
                "status": "missing" if entry.function is None else "ready",
            }
            for entry in self
        ]


def _like(entry: FunctionEntry, create: CreateFunction) -> bool:
    return _same_types(entry, create) and entry.statement.source == create.source


def _same_types(entry: FunctionEntry, create: CreateFunction) -> bool:
    return (entry.types, entry.statement.returns) == (
        tuple(column.type for column in create.arguments.columns),
        create.returns,
    )
