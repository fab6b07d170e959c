"""The forms of a query that StreamSQL has, as data.

Owns the list of sqlglot's node classes that may stand in a query, and of their arguments where a
class also covers forms that Spark SQL and the store do not share. See `functions` for its use.
"""

from __future__ import annotations

import re

from sqlglot import exp

STRUCTURE: frozenset[type[exp.Expr]] = frozenset(
    {
        # queries
        exp.Select, exp.Union, exp.Except, exp.Intersect, exp.Subquery, exp.With, exp.CTE, exp.From,
        exp.Join, exp.Lateral, exp.Unnest, exp.Values, exp.Table, exp.TableAlias, exp.Version, exp.Pivot,
        exp.PivotAlias, exp.Where, exp.Group, exp.Cube, exp.Rollup, exp.GroupingSets, exp.Having,
        exp.Qualify, exp.Distinct, exp.Order, exp.Ordered, exp.Limit, exp.Offset, exp.Fetch, exp.Window,
        exp.WindowSpec, exp.Filter, exp.IgnoreNulls, exp.RespectNulls,
        # names and constants
        exp.Alias, exp.Aliases, exp.Column, exp.Dot, exp.Identifier, exp.Star, exp.Var, exp.Literal,
        exp.Boolean, exp.Null, exp.HexString, exp.RawString, exp.Interval, exp.DataType, exp.DataTypeParam,
        exp.ColumnDef,
        # operators
        exp.Paren, exp.Tuple, exp.Neg, exp.Not, exp.BitwiseNot, exp.Add, exp.Sub, exp.Mul, exp.Div,
        exp.IntDiv, exp.Mod, exp.DPipe, exp.And, exp.Or, exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ,
        exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Is, exp.In, exp.Between, exp.Like, exp.ILike, exp.Escape,
        exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor, exp.BitwiseLeftShift, exp.BitwiseRightShift,
        exp.Exists, exp.Any, exp.All, exp.Bracket, exp.Lambda, exp.PropertyEQ,
        # paths of get_json_object
        exp.JSONPath, exp.JSONPathRoot, exp.JSONPathKey, exp.JSONPathSubscript,
    }
)  # fmt: skip

_SET_ARGS = frozenset({"with_", "this", "expression", "distinct", "order", "limit", "offset"})

# Arguments beyond these are forms of other dialects (SELECT AS STRUCT, DISTINCT ON, UNION BY NAME …),
# or not maintainable (recursion).
ALLOWED_ARGS: dict[type[exp.Expr], frozenset[str]] = {
    exp.Select: frozenset(
        {
            "with_",
            "expressions",
            "distinct",
            "from_",
            "joins",
            "laterals",
            "where",
            "group",
            "having",
            "qualify",
            "windows",
            "order",
            "limit",
            "offset",
        }
    ),
    exp.Union: _SET_ARGS,
    exp.Except: _SET_ARGS,
    exp.Intersect: _SET_ARGS,
    exp.Subquery: frozenset({"with_", "this", "alias", "pivots", "joins", "order", "limit", "offset"}),
    exp.With: frozenset({"expressions"}),
    exp.CTE: frozenset({"this", "alias"}),
    exp.Table: frozenset({"this", "db", "catalog", "alias", "version", "pivots", "joins", "laterals"}),
    exp.Join: frozenset({"this", "on", "using", "method", "side", "kind"}),
    exp.Lateral: frozenset({"this", "view", "outer", "alias"}),
    exp.Unnest: frozenset({"expressions", "alias"}),
    exp.Values: frozenset({"expressions", "alias"}),
    exp.Distinct: frozenset({"expressions"}),
    exp.Group: frozenset({"expressions", "grouping_sets", "cube", "rollup", "all"}),
    exp.Star: frozenset({"except_"}),
    exp.Cast: frozenset({"this", "to"}),
    exp.TryCast: frozenset({"this", "to", "safe", "requires_string"}),
}

# What to write in place of a form that is refused: by the class of its node, or by class and argument.
INSTEAD: dict[object, str] = {
    (exp.With, "recursive"): "recursion may have no end, and an epoch must have one; join the steps one by one",
    (exp.Union, "by_name"): "name the columns of both sides in the same order",
    (exp.Table, "sample"): "a view gives the same answer for the same input; filter: id % 10 = 0",
    (exp.Any, None): "x LIKE 'a%' OR x LIKE 'b%'",
    (exp.All, None): "x LIKE 'a%' AND x LIKE 'b%'",
    (exp.Distinct, "on"): "QUALIFY row_number() OVER (PARTITION BY … ORDER BY …) = 1",
    (exp.Select, "kind"): "named_struct('a', a, 'b', b)",
}

JOIN_WORDS = frozenset({"INNER", "CROSS", "LEFT", "RIGHT", "FULL", "OUTER", "SEMI", "ANTI", "NATURAL"})

ROW_SOURCES = exp.Explode | exp.Posexplode

_PLAIN_UNITS = (
    "YEAR",
    "QUARTER",
    "MONTH",
    "WEEK",
    "DAY",
    "HOUR",
    "MINUTE",
    "SECOND",
    "MILLISECOND",
    "MICROSECOND",
)
EXTRACT_FIELDS = frozenset(
    {"YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE"}
    # SECOND has a fraction in Spark only, and the days of a week begin at different numbers.
)
UNITS = frozenset(_PLAIN_UNITS) | {f"{unit}S" for unit in _PLAIN_UNITS}

# Names that an engine takes for a call where it finds no such column.
WORDS_THAT_CALL = frozenset(
    {
        "current_catalog", "current_database", "current_role", "current_schema", "current_time",
        "current_user", "localtime", "localtimestamp", "session_user",
    }
)  # fmt: skip

# Relations that DuckDB finds under these names in every database.
RESERVED_RELATIONS = re.compile(
    r"(?:duckdb|pragma|sqlite)_.*"
    r"|pg_(?:am|attrdef|attribute|class|collation|constraint|database|depend|description|enum|index|indexes"
    r"|namespace|prepared_statements|proc|sequences?|settings|tables|tablespace|type|views)",
    re.IGNORECASE,
)
