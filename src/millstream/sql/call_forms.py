"""Which forms a call of a known function may have.

What always holds: a call that passes has no argument that one of the engines would not look at. A printer of SQL leaves
out what its dialect has no place for, and says so at most in a log, so an argument that no form of `signatures` has is
refused before any printer sees it; so are calls with too few of them, constants that must be one of a few, and formats
of times that the store does not write or read as Spark does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from sqlglot import exp

from millstream.sql.formats import check_read, check_written
from millstream.sql.parse import parse_statement
from millstream.sql.signatures import SIGNATURES, forms
from millstream.sql.statements import Select

Kind = type[exp.Expr] | str
"""What a call is parsed as: a class, or the lower-case name of one that has none."""

# As many as one likes, but not fewer than these.
_VARIADIC: Mapping[type[exp.Expr], int] = {
    exp.Array: 1,
    exp.Case: 1,
    exp.Coalesce: 0,
    exp.Concat: 1,
    exp.ConcatWs: 1,
    exp.DecodeCase: 3,
    exp.Greatest: 1,
    exp.Least: 1,
    exp.Struct: 1,
}
_CONSTANTS: Mapping[tuple[type[exp.Expr], str], frozenset[str]] = {
    (exp.Encode, "charset"): frozenset({"utf-8"}),
    (exp.SHA2, "length"): frozenset({"256"}),
}
_FORMATS: Mapping[type[exp.Expr], Callable[[str], None]] = {
    exp.StrToTime: check_read,
    exp.TimeToStr: check_written,
    exp.TsOrDsToDate: check_read,
}


@dataclass(frozen=True, slots=True)
class CallForms:
    """What the forms of a kind of call have in common."""

    names: tuple[str, ...]
    """Of the functions that are parsed so."""
    known: frozenset[str]
    required: frozenset[str]
    lengths: Mapping[str, frozenset[int]]
    """Of arguments that are lists, how long they may be; of variadic calls nothing."""


@dataclass(frozen=True, slots=True)
class Misfit:
    """Why a call is of no known form."""

    names: tuple[str, ...]
    message: str


def misfit(node: exp.Expr) -> Misfit | None:
    """Why a call cannot be made, if it cannot. Raises `MillstreamError` for a format of a time."""
    known = _known_forms().get(kind_of(node))
    if known is None:
        return None
    given = _given(node)
    if extra := given.keys() - known.known:
        return Misfit(known.names, f"this argument is not known: {min(extra).strip('_')}")
    if known.required - given.keys():
        # The argument of year() and its like is one of these.
        around = _known_forms().get(kind_of(node.parent)) if node.parent is not None else None
        inside = isinstance(node, exp.TsOrDsToDate) and around is not None
        return Misfit(around.names if inside and around else known.names, "too few arguments")
    for name, lengths in known.lengths.items():
        if name in given and given[name] not in lengths:
            return Misfit(known.names, "too few arguments" if given[name] < min(lengths) else "too many arguments")
    least = _VARIADIC.get(type(node), 0)
    if least and max((length for length in given.values()), default=0) < least:
        return Misfit(known.names, "too few arguments")
    for (kind, name), values in _CONSTANTS.items():
        if type(node) is kind and node.text(name).lower() not in values:
            return Misfit(known.names, f"{name} is one of {', '.join(sorted(values))}")
    check, format_ = _FORMATS.get(type(node)), node.args.get("format")
    if check is not None and format_ is not None:
        if not isinstance(format_, exp.Literal):
            return Misfit(known.names, "the format of a time is a constant")
        check(format_.name)
    return None


def kind_of(node: exp.Expr) -> Kind:
    return node.name.lower() if isinstance(node, exp.Anonymous) else type(node)


@cache
def _known_forms() -> dict[Kind, CallForms]:
    found: dict[Kind, list[tuple[str, dict[str, int]]]] = {}
    for name, templates in SIGNATURES.items():
        for template in templates:
            (call, _), *_ = forms(template)
            statement = parse_statement(f"SELECT {call}")
            assert isinstance(statement, Select)
            for node in statement.query.find_all(exp.Func):
                found.setdefault(kind_of(node), []).append((name, _given(node)))
    return {kind: _summed_up(kind, seen) for kind, seen in found.items()}


def _summed_up(kind: Kind, seen: list[tuple[str, dict[str, int]]]) -> CallForms:
    given = [arguments for _, arguments in seen]
    known = frozenset[str]().union(*given)
    required = frozenset[str](known).intersection(*given)
    lists = {name for arguments in given for name, length in arguments.items() if length}
    lengths = {name: frozenset(arguments.get(name, 0) for arguments in given) for name in lists}
    if kind in _VARIADIC:
        required, lengths = required - lists, {}
    return CallForms(tuple(dict.fromkeys(name for name, _ in seen)), known, required, lengths)


def _given(node: exp.Expr) -> dict[str, int]:
    """The arguments of a call; of lists, how long they are, else 0."""
    return {
        name: len(value) if isinstance(value, list) else 0
        for name, value in node.args.items()
        if value is not None and value != [] and value is not False
    }
