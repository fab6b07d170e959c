"""The aggregate functions, as one table: partial (Spark), merge and combine (store), result (store).

Each aggregate is a handful of *accumulators*: Spark SQL that computes the accumulator over the
rows of an epoch, and the store's SQL that merges it into what is kept. What always holds: merge is
associative and commutative, so results do not depend on where epochs begin and end; a NULL
accumulator is the aggregate of no rows.

Ties are broken by value and order by event time, partition and offset, never by arrival at a task:
the same rows give the same result however they were split.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pyarrow as pa
from sqlglot import exp

from millstream.model.errors import MillstreamError
from millstream.model.schema import store_type

# Stands in a partial behind every aggregate call, where its FILTER clause goes.
FILTER = "⟨filter⟩"


@dataclass(frozen=True, slots=True)
class Accumulator:
    """One kept value. `{a}` is the kept side, `{b}` the new one, `{x}` one column to combine."""

    partials: tuple[str, ...]
    load: str
    merge: str
    combine: str
    cheap: bool = False
    """Whether computing it over rows that are not used is harmless and costs next to nothing."""
    native: tuple[str, ...] = ()
    """The partials in the store's SQL over `arguments` (`{0}`), where that is more than a translation."""
    arguments: tuple[str, ...] = ()
    floating: bool = field(default=False, repr=False)
    """Whether values are added as DOUBLE, so that their order shows in the last digits."""


@dataclass(frozen=True, slots=True)
class Aggregate:
    """How one call is computed: accumulators, and the result over them (`{0}`, `{1}`, …)."""

    accumulators: tuple[Accumulator, ...]
    result: str


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of an aggregate: Spark SQL and its type."""

    sql: str
    type: pa.DataType
    simple: bool
    """Whether it is a bare column or a constant, which cannot fail."""


Builder = Callable[[tuple[Argument, ...]], Aggregate]

_SUM = {"merge": "coalesce({a} + {b}, {a}, {b})", "combine": "sum({x})"}
_MAX = {"merge": "greatest({a}, {b})", "combine": "max({x})"}
_MIN = {"merge": "least({a}, {b})", "combine": "min({x})"}
_MAX_STRUCT = {"merge": "CASE WHEN {a} IS NULL OR {b} > {a} THEN {b} ELSE {a} END", "combine": "max({x})"}
_MIN_STRUCT = {"merge": "CASE WHEN {a} IS NULL OR {b} < {a} THEN {b} ELSE {a} END", "combine": "min({x})"}
_CONCAT = {"merge": "list_concat({a}, {b})", "combine": "flatten(list({x}) FILTER (WHERE {x} IS NOT NULL))"}
_UNION = {
    "merge": "list_distinct(list_concat({a}, {b}))",
    "combine": "list_distinct(flatten(list({x}) FILTER (WHERE {x} IS NOT NULL)))",
}


def _one(partial: str, rule: dict[str, str], load: str = "{0}", cheap: bool = False) -> Accumulator:
    return Accumulator((partial,), load, rule["merge"], rule["combine"], cheap)


def _list(function: str, value: str, rule: dict[str, str]) -> Accumulator:
    """The values that are not NULL as a list."""
    values = f"list({{0}}){FILTER}"
    # Rather than `list(DISTINCT …)`, for which DuckDB keeps a hash table of its own.
    filled = f"list_distinct({values})" if rule is _UNION else f"list_filter({values}, lambda e: e IS NOT NULL)"
    native = f"coalesce({filled}, [])"
    partial = f"{function}({value}){FILTER}"
    return Accumulator((partial,), "{0}", rule["merge"], rule["combine"], native=(native,), arguments=(value,))


def _count_accumulator(sql: str, cheap: bool) -> Accumulator:
    return _one(f"count({sql}){FILTER}", _SUM, "CAST({0} AS BIGINT)", cheap)


def _count(args: tuple[Argument, ...]) -> Aggregate:
    columns = ", ".join(arg.sql for arg in args)
    return Aggregate((_count_accumulator(columns, all(a.simple for a in args)),), "coalesce({0}, 0)")


def _count_if(args: tuple[Argument, ...]) -> Aggregate:
    return Aggregate((_one(f"count_if({args[0].sql}){FILTER}", _SUM, "CAST({0} AS BIGINT)"),), "coalesce({0}, 0)")


def _sum_accumulator(arg: Argument) -> Accumulator:
    """A sum that cannot overflow: integers are added as 128 bits.

    Spark adds the upper and the lower half of a BIGINT apart, which for the rows of one epoch stays
    far from its limit and costs no decimal arithmetic; the store puts them together.
    """
    if pa.types.is_integer(arg.type):
        if arg.type == pa.int64():
            halves = (f"sum(shiftright({arg.sql}, 32)){FILTER}", f"sum({arg.sql} & 4294967295L){FILTER}")
            whole = f"sum({{0}}){FILTER}"
            return Accumulator(
                halves,
                "CAST({0} AS HUGEINT) * 4294967296 + {1}",
                _SUM["merge"],
                _SUM["combine"],
                arg.simple,
                native=(f"CAST({whole} >> 32 AS BIGINT)", f"CAST({whole} & 4294967295 AS BIGINT)"),
                arguments=(arg.sql,),
            )
        return _one(f"sum({arg.sql}){FILTER}", _SUM, "CAST({0} AS HUGEINT)", arg.simple)
    if pa.types.is_decimal(arg.type):
        kept = f"CAST({{0}} AS DECIMAL(38, {arg.type.scale}))"
        rule = {"merge": _SUM["merge"], "combine": f"CAST(sum({{x}}) AS DECIMAL(38, {arg.type.scale}))"}
        return _one(f"sum({arg.sql}){FILTER}", rule, kept, arg.simple)
    return replace(_one(f"sum(CAST({arg.sql} AS DOUBLE)){FILTER}", _SUM, cheap=arg.simple), floating=True)


def _sum(args: tuple[Argument, ...]) -> Aggregate:
    _numeric("sum", args[0])
    return Aggregate((_sum_accumulator(args[0]),), "{0}")


def _avg(args: tuple[Argument, ...]) -> Aggregate:
    arg = args[0]
    _numeric("avg", arg)
    parts = (_sum_accumulator(arg), _count_accumulator(arg.sql, arg.simple))
    if pa.types.is_decimal(arg.type):
        precision = min(arg.type.precision + 4, 38)
        scale = min(arg.type.scale + 4, precision)
        return Aggregate(parts, f"CAST({{0}} / nullif({{1}}, 0) AS DECIMAL({precision}, {scale}))")
    return Aggregate(parts, "CAST({0} AS DOUBLE) / nullif({1}, 0)")


def _extreme(rule: dict[str, str], function: str) -> Builder:
    def build(args: tuple[Argument, ...]) -> Aggregate:
        arg = args[0]
        if pa.types.is_struct(arg.type):
            keyed = f"IF(({arg.sql}) IS NULL, NULL, struct({_order_key(arg.sql, arg.type)} AS o, {arg.sql} AS v))"
            struct_rule = _MAX_STRUCT if function == "max" else _MIN_STRUCT
            return Aggregate((_one(f"{function}({keyed}){FILTER}", struct_rule),), "{0}.v")
        nested = pa.types.is_nested(arg.type)
        merge = {**(_MAX_STRUCT if function == "max" else _MIN_STRUCT)} if nested else rule
        cheap = arg.simple and pa.types.is_primitive(arg.type)
        return Aggregate((_one(f"{function}({arg.sql}){FILTER}", merge, cheap=cheap),), "{0}")

    return build


def _moments(result: str) -> Builder:
    """Variances from (count, mean, sum of squared distances), merged by Chan's rule."""

    def build(args: tuple[Argument, ...]) -> Aggregate:
        _numeric("variance", args[0])
        x = f"CAST({args[0].sql} AS DOUBLE)"
        n = f"count({x}){FILTER}"
        moments = f"struct({n} AS n, avg({x}){FILTER} AS m, var_pop({x}){FILTER} * {n} AS q)"
        partial = f"IF({n} = 0, NULL, {moments})"
        chan = (
            "struct_pack(n := {a}.n + {b}.n, "
            "m := {a}.m + ({b}.m - {a}.m) * {b}.n / ({a}.n + {b}.n), "
            "q := {a}.q + {b}.q + ({b}.m - {a}.m) * ({b}.m - {a}.m) * {a}.n * {b}.n / ({a}.n + {b}.n))"
        )
        reduce = chan.replace("{a}", "u").replace("{b}", "v")
        accumulator = Accumulator(
            (partial,),
            "{0}",
            f"CASE WHEN {{a}} IS NULL THEN {{b}} WHEN {{b}} IS NULL THEN {{a}} ELSE {chan} END",
            f"list_reduce(list({{x}}) FILTER (WHERE {{x}} IS NOT NULL), lambda u, v: {reduce})",
            floating=True,
        )
        return Aggregate((accumulator,), result)

    return build


def _distinct(result: str) -> Builder:
    """Aggregates over distinct values, from the set of them."""

    def build(args: tuple[Argument, ...]) -> Aggregate:
        if len(args) == 1:
            value = args[0].sql
        else:
            filled = " AND ".join(f"({arg.sql}) IS NOT NULL" for arg in args)
            value = f"IF({filled}, struct({', '.join(arg.sql for arg in args)}), NULL)"
        return Aggregate((_list("collect_set", value, _UNION),), result)

    return build


def _order_key(sql: str, type_: pa.DataType) -> str:
    """Spark SQL of what orders values in the store as in Spark, where a NULL in a struct comes first, not last."""
    if not pa.types.is_struct(type_):
        return sql
    fields = [(f"({sql}).`{field.name}`", field.type) for field in type_]
    keys = (f"{field} IS NOT NULL AS n{i}, {_order_key(field, t)} AS k{i}" for i, (field, t) in enumerate(fields))
    return f"struct({', '.join(keys)})"


def _by(rule: dict[str, str], function: str) -> Builder:
    """min_by and max_by: the extreme of (order, value), so that a tie has one answer."""
    prefer_value = "IS NOT NULL" if function == "max" else "IS NULL"

    def build(args: tuple[Argument, ...]) -> Aggregate:
        value, order = args
        pair = f"struct({_order_key(order.sql, order.type)} AS o, ({value.sql}) {prefer_value} AS f, {value.sql} AS v)"
        partial = f"{function}(IF(({order.sql}) IS NULL, NULL, {pair})){FILTER}"
        return Aggregate((_one(partial, rule),), "{0}.v")

    return build


def _edge(rule: dict[str, str], function: str, skip_nulls: bool) -> Builder:
    """first, last and any_value: by event time, then by place in the stream."""

    def build(args: tuple[Argument, ...]) -> Aggregate:
        value = args[0].sql
        row = f"struct(__et AS t, __p AS p, __o AS o, {value} AS v)"
        if skip_nulls:
            row = f"IF(({value}) IS NULL, NULL, {row})"
        return Aggregate((_one(f"{function}({row}){FILTER}", rule),), "{0}.v")

    return build


def _collect_list(args: tuple[Argument, ...]) -> Aggregate:
    value = args[0].sql
    row = f"IF(({value}) IS NULL, NULL, struct(__et AS t, __p AS p, __o AS o, {value} AS v))"
    in_order = "list_transform(list_sort({0}), lambda e: e.v)"
    empty = f"CAST([] AS {store_type(pa.list_(args[0].type))})"
    return Aggregate((_list("collect_list", row, _CONCAT),), f"coalesce({in_order}, {empty})")


def _collect_set(args: tuple[Argument, ...]) -> Aggregate:
    empty = f"CAST([] AS {store_type(pa.list_(args[0].type))})"
    kept = _list("collect_set", args[0].sql, _UNION)
    return Aggregate((kept,), f"coalesce(list_sort({{0}}), {empty})")


def _approx_count_distinct(args: tuple[Argument, ...]) -> Aggregate:
    """A HyperLogLog sketch (Apache DataSketches, 2^12 registers): about 1.6 % standard error."""
    x = args[0].sql
    if args[0].type not in (pa.int32(), pa.int64(), pa.string(), pa.binary()):
        x = f"CAST({x} AS STRING)"
    sketch = f"IF(count({x}){FILTER} = 0, NULL, hll_sketch_agg({x}, 12){FILTER})"
    rule = {
        "merge": "hll_union([{a}, {b}])",
        "combine": "hll_union(list({x}) FILTER (WHERE {x} IS NOT NULL))",
    }
    return Aggregate((_one(sketch, rule),), "coalesce(hll_estimate({0}), 0)")


_VARIANCES = {
    "var_samp": "CASE WHEN {0}.n > 1 THEN {0}.q / ({0}.n - 1) END",
    "var_pop": "{0}.q / {0}.n",
    "stddev_samp": "CASE WHEN {0}.n > 1 THEN sqrt({0}.q / ({0}.n - 1)) END",
    "stddev_pop": "sqrt({0}.q / {0}.n)",
}

AGGREGATES: dict[str, Builder] = {
    "count": _count,
    "count_if": _count_if,
    "sum": _sum,
    "avg": _avg,
    "min": _extreme(_MIN, "min"),
    "max": _extreme(_MAX, "max"),
    "bool_and": _extreme(_MIN, "min"),
    "bool_or": _extreme(_MAX, "max"),
    "var_samp": _moments(_VARIANCES["var_samp"]),
    "var_pop": _moments(_VARIANCES["var_pop"]),
    "stddev_samp": _moments(_VARIANCES["stddev_samp"]),
    "stddev_pop": _moments(_VARIANCES["stddev_pop"]),
    "min_by": _by(_MIN_STRUCT, "min"),
    "max_by": _by(_MAX_STRUCT, "max"),
    "first": _edge(_MIN_STRUCT, "min", skip_nulls=False),
    "last": _edge(_MAX_STRUCT, "max", skip_nulls=False),
    "first_non_null": _edge(_MIN_STRUCT, "min", skip_nulls=True),
    "last_non_null": _edge(_MAX_STRUCT, "max", skip_nulls=True),
    "any_value": _edge(_MIN_STRUCT, "min", skip_nulls=True),
    "collect_list": _collect_list,
    "collect_set": _collect_set,
    "approx_count_distinct": _approx_count_distinct,
    "count_distinct": _distinct("coalesce(len({0}), 0)"),
    "sum_distinct": _distinct("list_sum({0})"),
    "avg_distinct": _distinct("list_avg({0})"),
    "collect_list_distinct": _collect_set,
}
# Over distinct values these are what they are over all.
AGGREGATES |= {f"{name}_distinct": AGGREGATES[name] for name in ("min", "max", "bool_and", "bool_or", "collect_set")}

_NODES: dict[type[exp.Expr], str] = {
    exp.AnyValue: "any_value",
    exp.ApproxDistinct: "approx_count_distinct",
    exp.ArgMax: "max_by",
    exp.ArgMin: "min_by",
    exp.ArrayAgg: "collect_list",
    exp.ArrayUniqueAgg: "collect_set",
    exp.Avg: "avg",
    exp.Count: "count",
    exp.CountIf: "count_if",
    exp.First: "first",
    exp.FirstValue: "first",
    exp.Last: "last",
    exp.LastValue: "last",
    exp.LogicalAnd: "bool_and",
    exp.LogicalOr: "bool_or",
    exp.Max: "max",
    exp.Min: "min",
    exp.Stddev: "stddev_samp",
    exp.StddevPop: "stddev_pop",
    exp.StddevSamp: "stddev_samp",
    exp.Sum: "sum",
    exp.Variance: "var_samp",
    exp.VariancePop: "var_pop",
}


def aggregate_name(node: exp.Expr) -> str | None:
    """The one name of an aggregate call, however it was spelled; None for anything else.

    >>> aggregate_name(exp.LogicalOr(this=exp.column("x")))
    'bool_or'
    """
    return _NODES.get(type(node))


def _numeric(name: str, arg: Argument) -> None:
    if not (pa.types.is_integer(arg.type) or pa.types.is_floating(arg.type) or pa.types.is_decimal(arg.type)):
        raise MillstreamError(
            "TYPE_MISMATCH", f"{name} needs a number, but {arg.sql} is {arg.type}", hint="cast it to a number"
        )
