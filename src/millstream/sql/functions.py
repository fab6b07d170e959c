"""The sandbox: what a user's query may contain.

Owns `check_query`, which must pass before any part of a query reaches Spark or the store. It is
an allowlist: a kind of syntax, a function or an argument that is not known here is refused, so
whatever a parser learns to read tomorrow stays out until someone lets it in. Must not depend on
which engine runs the query.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from difflib import get_close_matches
from functools import cache
from typing import NoReturn

from sqlglot import exp

from millstream.model.errors import MillstreamError, Position
from millstream.sql import replacements
from millstream.sql.allowlist import (
    AGGREGATE_EXAMPLES,
    AGGREGATES,
    CLOCKS,
    ROW_FUNCTIONS,
    SCALARS,
    WINDOWED,
)
from millstream.sql.call_forms import misfit
from millstream.sql.column_types import arrow_type
from millstream.sql.parse import parse_statement
from millstream.sql.positions import position_of
from millstream.sql.signatures import SIGNATURES
from millstream.sql.statements import Select
from millstream.sql.syntax import (
    ALLOWED_ARGS,
    EXTRACT_FIELDS,
    INSTEAD,
    JOIN_WORDS,
    RESERVED_RELATIONS,
    ROW_SOURCES,
    STRUCTURE,
    UNITS,
    WORDS_THAT_CALL,
)
from millstream.sql.windows import ProcessingTime, WindowFunction

__all__ = ["AGGREGATES", "check_query"]

_PLAIN_NAME = re.compile(r"[^\W\d]\w*")
_UNQUALIFIED = "a function is called by its bare name, as in lower(x)"
_DETERMINISTIC = "a view must give the same answer for the same input; use the event time column instead"


def check_query(
    query: exp.Query,
    *,
    text: str = "",
    source: str = "<sql>",
    continuous: bool = True,
    udfs: Collection[str] = (),
) -> None:
    """Refuse a query that does more than compute on the relations it names.

    `continuous` is for views, which must give the same answer for the same input; a query that is
    answered once may read the clock and sample, but not call window functions. `udfs` are the
    names, in lower case, of registered functions. `text` and `source` say where the query came
    from, for positions in errors.
    """
    check = _Check(text, source, continuous, frozenset(udfs))
    for node in query.walk():
        check.node(node)


@cache
def _known() -> tuple[frozenset[type[exp.Expr]], frozenset[str], frozenset[type[exp.Expr]], frozenset[str]]:
    """Node classes and anonymous names of the allowed functions, then those of the clock."""
    pure = {**SCALARS, **ROW_FUNCTIONS, **AGGREGATE_EXAMPLES, **WINDOWED}
    classes, names = _forms(list(pure.values()))
    clock_classes, clock_names = _forms(list(CLOCKS.values()))
    return classes, names, clock_classes, clock_names


def _forms(examples: list[str]) -> tuple[frozenset[type[exp.Expr]], frozenset[str]]:
    classes: set[type[exp.Expr]] = set()
    names: set[str] = set()
    statement = parse_statement("SELECT " + ", ".join(examples))
    assert isinstance(statement, Select)
    for call in statement.query.find_all(exp.Func):
        if isinstance(call, exp.Anonymous):
            names.add(call.name.lower())
        else:
            classes.add(type(call))
    return frozenset(classes), frozenset(names)


class _Check:
    """One walk over one query."""

    def __init__(self, text: str, source: str, continuous: bool, udfs: frozenset[str]) -> None:
        self.text = text
        self.source = source
        self.continuous = continuous
        self.udfs = udfs
        self.classes, self.names, self.clock_classes, self.clock_names = _known()

    def node(self, node: exp.Expr) -> None:
        kind = type(node)
        if kind not in STRUCTURE and kind is not ProcessingTime:
            if isinstance(node, exp.Func | exp.Columns | WindowFunction):
                self.function(node)
            elif not (isinstance(node, exp.TableSample) and not self.continuous):
                self.refuse_syntax(node)
        allowed = ALLOWED_ARGS.get(kind)
        if allowed is not None:
            for key, value in node.args.items():
                if value and key not in allowed and not (key == "sample" and not self.continuous):
                    self.refuse_syntax(node, key)
        self.details(node)

    def details(self, node: exp.Expr) -> None:
        """What the class of a node does not say."""
        match node:
            case exp.Table():
                self.table(node)
            case exp.Column() if not isinstance(node.this, exp.Identifier | exp.Star):
                self.refuse_function(node.this, hint=_UNQUALIFIED)
            case exp.Column() if not node.table and node.name.lower() in WORDS_THAT_CALL:
                self.refuse_function(node, hint=_DETERMINISTIC)
            case exp.Dot() if not isinstance(node.expression, exp.Identifier):
                self.refuse_function(node.expression, hint=_UNQUALIFIED)
            case exp.Var() if node.name.upper() not in UNITS:
                meant = replacements.UNITS.get(node.name.lower())
                hint = f"write {meant}" if meant else None
                self.refuse_syntax(node, node.name.lower(), what="unit of time", hint=hint)
            case exp.Pivot() if node.arg_key != "pivots":
                self.refuse_syntax(node)
            case exp.Extract() if node.name.upper() not in EXTRACT_FIELDS:
                self.refuse_syntax(node, node.name.lower())
            case exp.DataType() if arrow_type(node) is None:
                self.refuse_syntax(node, "type")
            case exp.ColumnDef() if not isinstance(node.parent, exp.DataType):
                self.refuse_syntax(node)
            case exp.Exists() if not isinstance(node.this, exp.Query):
                self.refuse_function(node)
            case exp.Any() | exp.All() if not isinstance(node.this.unnest(), exp.Query):
                self.refuse_syntax(node)
            case exp.Lambda() if len(node.expressions) > 1 and not isinstance(node.parent, exp.Reduce):
                self.refuse_syntax(node)
            case exp.Posexplode() if not isinstance(node.parent, exp.Lateral | exp.Table):
                self.refuse_function(node, hint="posexplode gives two columns: use it in LATERAL VIEW")
            case exp.Lateral():
                self.lateral(node)
            case exp.Join():
                words = f"{node.args.get('method') or ''} {node.side} {node.kind}".split()
                if not set(words) <= JOIN_WORDS:
                    self.refuse_syntax(node, " ".join(words))
            case exp.Version():
                if node.name != "TIMESTAMP" or node.text("kind") != "AS OF" or not node.expression:
                    self.refuse_syntax(node)
            case _:
                pass

    # -- functions ---------------------------------------------------------------------------

    def function(self, node: exp.Expr) -> None:
        if isinstance(node, WindowFunction):
            if not isinstance(node.parent, exp.Table) or node.arg_key != "this":
                self.refuse_function(node, hint=f"{node.args['function']} is a table function: use it in FROM")
            if not self.continuous:
                self.refuse_function(node, hint="windows are computed by views: CREATE MATERIALIZED VIEW …")
            return
        if isinstance(node, exp.Anonymous):
            name = node.name.lower()
            known, clock = name in self.names or name in self.udfs, name in self.clock_names
        else:
            known, clock = type(node) in self.classes, type(node) in self.clock_classes
        if clock and not known and self.continuous:
            self.refuse_function(node, hint=_DETERMINISTIC)
        if not known and not clock:
            self.refuse_function(node)
        if not (isinstance(node, exp.Anonymous) and node.name.lower() in self.udfs):
            self.form(node)

    def form(self, node: exp.Expr) -> None:
        """Refuse a call with arguments that not both engines would look at."""
        try:
            found = misfit(node)
        except MillstreamError as error:
            error.position = self.place(node)
            raise
        if found is not None:
            known = [form for name in found.names for form in SIGNATURES[name]]
            raise MillstreamError(
                "ARGUMENT_NOT_ALLOWED",
                f"this call of {found.names[0]} is not part of StreamSQL: {found.message}",
                detail=f"what is: {', '.join(known[:4])}",
                hint="docs/functions.md has the forms of every function",
                position=self.place(node),
            )

    def place(self, node: exp.Expr) -> Position | None:
        """Where a node is, or what it is part of."""
        around: exp.Expr | None = node
        while around is not None:
            position = position_of(around, self.text, self.source)
            if position is not None:
                return position
            around = around.parent
        return None

    def refuse_function(self, node: exp.Expr, *, hint: str | None = None) -> NoReturn:
        position = position_of(node, self.text, self.source)
        written = position.text[position.start : position.end] if position else ""
        name = written if _PLAIN_NAME.fullmatch(written) else node.name or node.key
        known = {*SCALARS, *AGGREGATES, *WINDOWED, *ROW_FUNCTIONS, *self.udfs}
        hint = hint or replacements.FUNCTIONS.get(name.lower())
        nearest = get_close_matches(name.lower(), known, n=1, cutoff=0.75)
        raise MillstreamError(
            "FUNCTION_NOT_ALLOWED",
            f"function {name!r} is not allowed here",
            detail="queries call only functions that are known to be pure and to mean the same everywhere",
            hint=hint or (f"did you mean {nearest[0]!r}?" if nearest else None),
            position=position,
        )

    # -- relations ---------------------------------------------------------------------------

    def table(self, node: exp.Table) -> None:
        source = node.this
        if isinstance(source, WindowFunction | ROW_SOURCES):
            source = source.this if isinstance(source, WindowFunction) else None
        elif isinstance(source, exp.Func):
            self.refuse_function(source, hint="FROM takes streams, tables, views and window functions")
        if node.args.get("db") or node.args.get("catalog"):
            self.refuse_name(node)
        if source is not None and (
            not isinstance(source, exp.Identifier)
            or not _PLAIN_NAME.fullmatch(source.name)
            or RESERVED_RELATIONS.fullmatch(source.name)
        ):
            self.refuse_name(node)

    def refuse_name(self, node: exp.Table) -> NoReturn:
        names = ".".join(part.name for part in node.parts)
        raise MillstreamError(
            "BAD_NAME",
            f"{names!r} cannot be read",
            hint="name a stream, table or view; files and system relations are out of reach",
            position=position_of(node, self.text, self.source),
        )

    def lateral(self, node: exp.Lateral) -> None:
        if not isinstance(node.this, ROW_SOURCES if node.args.get("view") else exp.Subquery):
            self.refuse_function(node.this, hint="LATERAL VIEW takes explode or posexplode")

    # -- syntax ------------------------------------------------------------------------------

    def refuse_syntax(
        self, node: exp.Expr, part: str | None = None, *, what: str | None = None, hint: str | None = None
    ) -> NoReturn:
        name = what or re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(node).__name__).lower()
        raise MillstreamError(
            "SYNTAX_NOT_ALLOWED",
            f"this form of {name} is not part of StreamSQL" + (f": {part.strip('_')}" if part else ""),
            detail="queries are of forms that mean the same on Spark and in the store, and have an end",
            hint=hint or INSTEAD.get((type(node), part)),
            position=self.place(node),
        )
