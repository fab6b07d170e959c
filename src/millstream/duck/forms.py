"""How the store computes what Spark computes, function by function, as data.

Owns the forms in DuckDB's SQL of functions that DuckDB has under the same name with another meaning
at some edge: NULL, NaN, an index out of range, a letter beyond ASCII. `⟨0⟩`, `⟨1⟩` … are the arguments
in the order of the names beside the form. Functions `ms_…` are Python's, see `duck.functions`.
What is not here DuckDB computes as Spark does; a test compares every function on both.
"""

from __future__ import annotations

from sqlglot import exp

REFUSED = "refused: "
"""How the store's error begins when an argument is of a type that a form does not take."""


FAILED = ("⟨", "⟩")
"""What stands around the reason in the store's error when a row fails."""


BY_REAL = "ms.by_real"
BY_DATE = "ms.by_date"
WIDE = "ms.wide"
MACROS: dict[str, str] = {
    BY_REAL: "(k FLOAT, f, d, o) AS f, (k DOUBLE, f, d, o) AS d, "
    + ", ".join(
        f"(k {type_}, f, d, o) AS o" for type_ in ("DECIMAL", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
    ),
    BY_DATE: "(k DATE, d, o) AS d, (k TIMESTAMP, d, o) AS o",
    WIDE: ", ".join(
        [
            *(f"(k {type_}) AS CAST(k AS HUGEINT)" for type_ in ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")),
            *(f"(k {type_}) AS k" for type_ in ("FLOAT", "DOUBLE", "DECIMAL", "DATE", "TIMESTAMP", "HUGEINT")),
        ]
    ),
}
"""Choices by the type of the first argument, made while a query is bound: the result may have another type each time.

The store's file keeps them, because its views use them; a change needs a new name.
"""


def refusing(condition: str, hint: str, form: str) -> str:
    """A form that cannot be bound when a condition on the types of its arguments holds.

    DuckDB looks up the aggregate of `list_aggregate` when it binds a query. By then `typeof` is a
    constant, so an impossible name fails there, before any row, and names the reason.
    """
    reason = f"'{REFUSED}{hint}'"
    return f"CASE list_aggregate([1], CASE WHEN {condition} THEN {reason} ELSE 'max' END) WHEN 1 THEN {form} END"


def failing(reason: str) -> str:
    """A form that fails on the row, and is NULL to the store's types; `failure` says how."""
    return f"⟪{reason}⟫"


def failure(reason: str, argument: str | None) -> str:
    """What `failing` is in the end, given an argument that is no constant, if there is one.

    Not DuckDB's `error`, which cannot stand in TRY. The argument only makes the text differ by row:
    DuckDB would compute a constant before any row is asked whether it fails.
    """
    if argument is None:
        return f"error('{FAILED[0]}{reason}{FAILED[1]}')"
    text = f"concat('{FAILED[0]}{reason}{FAILED[1]}', left(CAST({argument} AS VARCHAR), 0))"
    return f"CASE WHEN CAST({text} AS INTEGER) = 0 THEN NULL END"


def _only_integers(form: str) -> str:
    types = "starts_with(typeof({0}), 'DECIMAL') OR typeof({0}) IN ('DOUBLE', 'FLOAT')"
    condition = " OR ".join(types.replace("{0}", hole) for hole in ("⟨0⟩", "⟨1⟩"))
    return refusing(condition, "div takes integers in the store", form)


_ASCII = "strlen(⟨0⟩) = length(⟨0⟩)"
_ZERO = f"⟨1⟩ = 0 AND ⟨0⟩ IS NOT NULL THEN {failing('division by zero')}"
_DOUBLE = "CAST(⟨0⟩ AS DOUBLE)"
_DISTINCT = "list_filter(⟨0⟩, lambda e, i: list_position(⟨0⟩, e) = i)"
_HAS_NULL = "len(list_filter(⟨0⟩, lambda e: e IS NULL)) > 0"
_BYTES = "CASE WHEN typeof(⟨0⟩) = 'BLOB' THEN CAST(⟨0⟩ AS BLOB) ELSE encode(CAST(⟨0⟩ AS VARCHAR)) END"
_AT = "CAST(⟨{0}⟩ AS TIMESTAMP)"
_SECONDS = f"(hour({_AT}) * 3600 + minute({_AT}) * 60 + second({_AT}))"
_DAY = "day(CAST(⟨{0}⟩ AS DATE))"
_LAST = "last_day(CAST(⟨{0}⟩ AS DATE)) = CAST(⟨{0}⟩ AS DATE)"
_MONTHS = "(year(CAST(⟨{0}⟩ AS DATE)) * 12 + month(CAST(⟨{0}⟩ AS DATE)))"
_SHIFT = "(⟨1⟩ & CASE WHEN typeof(⟨0⟩) = 'BIGINT' THEN 63 ELSE 31 END)"


def _pair(template: str, operator: str) -> str:
    return f"({template.replace('{0}', '0')} {operator} {template.replace('{0}', '1')})"


def _floor_micros(divisor: int) -> str:
    micros = "epoch_us(⟨0⟩)"
    return f"({micros} - ({micros} % {divisor} + {divisor}) % {divisor}) // {divisor}"


def _whole(function: str) -> str:
    """floor and ceil, which are a BIGINT."""
    return (
        f"CASE WHEN typeof(⟨0⟩) IN ('DOUBLE', 'FLOAT') THEN CAST(CASE WHEN isnan({_DOUBLE}) THEN 0 "
        f"ELSE {function}({_DOUBLE}) END AS BIGINT) WHEN starts_with(typeof(⟨0⟩), 'DECIMAL') "
        f"THEN CAST({function}(⟨0⟩) AS BIGINT) ELSE CAST(⟨0⟩ AS BIGINT) END"
    )


def _extreme(comparison: str) -> str:
    present = "list_filter(⟨0⟩, lambda e: e IS NOT NULL)"
    best = f"list_reduce({present}, lambda x, y: CASE WHEN y {comparison} x THEN y ELSE x END)"
    return f"CASE WHEN len({present}) > 0 THEN {best} END"


_MODULUS = "CASE WHEN typeof(⟨0⟩) = 'BIGINT' THEN 18446744073709551616::HUGEINT ELSE 4294967296::HUGEINT END"
_HALF = "CASE WHEN typeof(⟨0⟩) = 'BIGINT' THEN 9223372036854775808::HUGEINT ELSE 2147483648::HUGEINT END"
_PRODUCT = f"CAST(⟨0⟩ AS HUGEINT) * (CAST(1 AS HUGEINT) << CAST({_SHIFT} AS INTEGER))"

Form = tuple[str, tuple[str, ...]]

FORMS: dict[type[exp.Expr] | str, Form] = {
    # numbers
    exp.Div: (
        "CAST(⟨0⟩ AS DOUBLE) / CASE WHEN " + _ZERO + " ELSE CAST(⟨1⟩ AS DOUBLE) END",
        ("this", "expression"),
    ),
    exp.SafeDivide: (
        "CASE WHEN ⟨1⟩ <> 0 THEN CAST(⟨0⟩ AS DOUBLE) / CAST(⟨1⟩ AS DOUBLE) END",
        ("this", "expression"),
    ),
    # By -1 the least integer would overflow, and the sign of a remainder is the dividend's anyway.
    exp.Mod: (f"⟨0⟩ % CASE WHEN {_ZERO} WHEN ⟨1⟩ = -1 THEN -⟨1⟩ ELSE ⟨1⟩ END", ("this", "expression")),
    exp.IntDiv: (
        _only_integers(f"CAST(⟨0⟩ AS BIGINT) // CASE WHEN {_ZERO} ELSE CAST(⟨1⟩ AS BIGINT) END"),
        ("this", "expression"),
    ),
    exp.Atan2: (
        "atan2(CAST(⟨0⟩ AS DOUBLE) + CAST(0 AS DOUBLE), CAST(⟨1⟩ AS DOUBLE) + CAST(0 AS DOUBLE))",
        ("this", "expression"),
    ),
    exp.Ln: ("CASE WHEN ⟨0⟩ > 0 THEN ln(CAST(⟨0⟩ AS DOUBLE)) END", ("this",)),
    exp.Pow: (
        "CASE WHEN isnan(CAST(⟨1⟩ AS DOUBLE)) OR (isinf(CAST(⟨1⟩ AS DOUBLE)) AND abs(⟨0⟩) = 1) "
        "THEN CAST('NaN' AS DOUBLE) + 0 * CAST(⟨0⟩ AS DOUBLE) ELSE pow(CAST(⟨0⟩ AS DOUBLE), CAST(⟨1⟩ AS DOUBLE)) END",
        ("this", "expression"),
    ),
    exp.Sign: (
        f"CASE WHEN {_DOUBLE} = 0 OR isnan({_DOUBLE}) THEN {_DOUBLE} ELSE CAST(sign(⟨0⟩) AS DOUBLE) END",
        ("this",),
    ),
    exp.BitwiseCount: ("bit_count(CAST(⟨0⟩ AS BIGINT))", ("this",)),
    exp.Ceil: (_whole("ceil"), ("this",)),
    exp.Floor: (_whole("floor"), ("this",)),
    exp.Factorial: (
        "CASE WHEN ⟨0⟩ BETWEEN 0 AND 20 THEN CAST(factorial(CAST(⟨0⟩ AS INTEGER)) AS BIGINT) END",
        ("this",),
    ),
    exp.IsNan: ("coalesce(isnan(⟨0⟩), false)", ("this",)),
    exp.BitwiseLeftShift: (
        f"CAST((({_PRODUCT} + {_HALF}) % {_MODULUS} + {_MODULUS}) % {_MODULUS} - {_HALF} AS BIGINT)",
        ("this", "expression"),
    ),
    exp.BitwiseRightShift: (f"⟨0⟩ >> {_SHIFT}", ("this", "expression")),
    # strings
    exp.Chr: ("CASE WHEN ⟨0⟩ < 0 THEN '' ELSE chr(CAST(⟨0⟩ % 256 AS INTEGER)) END", ("expressions",)),
    exp.Lower: (f"CASE WHEN {_ASCII} THEN lower(⟨0⟩) ELSE ms_lower(⟨0⟩) END", ("this",)),
    exp.Upper: (f"CASE WHEN {_ASCII} THEN upper(⟨0⟩) ELSE ms_upper(⟨0⟩) END", ("this",)),
    exp.Initcap: ("ms_initcap(⟨0⟩)", ("this",)),
    exp.Reverse: (
        f"CASE WHEN {_ASCII} THEN reverse(⟨0⟩) ELSE array_to_string(list_reverse(string_split(⟨0⟩, '')), '') END",
        ("this",),
    ),
    exp.Levenshtein: (
        f"CASE WHEN {_ASCII} AND {_ASCII.replace('⟨0⟩', '⟨1⟩')} THEN CAST(levenshtein(⟨0⟩, ⟨1⟩) AS INTEGER) "
        "ELSE ms_levenshtein(⟨0⟩, ⟨1⟩) END",
        ("this", "expression"),
    ),
    exp.SplitPart: (
        "CASE WHEN ⟨2⟩ = 0 AND ⟨0⟩ IS NOT NULL AND ⟨1⟩ IS NOT NULL THEN " + failing("split_part counts from 1") + " "
        "WHEN ⟨1⟩ = '' THEN CASE WHEN abs(⟨2⟩) = 1 THEN ⟨0⟩ ELSE left(⟨0⟩, 0) END ELSE split_part(⟨0⟩, ⟨1⟩, ⟨2⟩) END",
        ("this", "delimiter", "part_index"),
    ),
    exp.Left: ("left(⟨0⟩, CASE WHEN ⟨1⟩ < 0 THEN 0 ELSE ⟨1⟩ END)", ("this", "expression")),
    exp.Right: ("right(⟨0⟩, CASE WHEN ⟨1⟩ < 0 THEN 0 ELSE ⟨1⟩ END)", ("this", "expression")),
    exp.ToBase64: (f"to_base64({_BYTES})", ("this",)),
    exp.Unhex: (
        "CASE WHEN regexp_full_match(⟨0⟩, '[0-9A-Fa-f]*') "
        "THEN unhex(CASE WHEN length(⟨0⟩) % 2 = 1 THEN '0' || ⟨0⟩ ELSE ⟨0⟩ END) END",
        ("this",),
    ),
    exp.Length: (
        refusing(
            "typeof(⟨0⟩) NOT IN ('VARCHAR', 'BLOB', '\"NULL\"')",
            "length takes a STRING or BINARY",
            "CASE WHEN typeof(⟨0⟩) = 'BLOB' THEN octet_length(CAST(⟨0⟩ AS BLOB)) ELSE length(CAST(⟨0⟩ AS VARCHAR)) END",
        ),
        ("this",),
    ),
    exp.Overlay: (
        "substring(⟨0⟩, 1, CASE WHEN ⟨2⟩ < 1 THEN 0 ELSE ⟨2⟩ - 1 END) || ⟨1⟩ || "
        "substring(⟨0⟩, CASE ⟨2⟩ + CASE WHEN ⟨3⟩ < 0 THEN length(⟨1⟩) ELSE ⟨3⟩ END WHEN 0 THEN 1 "
        "ELSE ⟨2⟩ + CASE WHEN ⟨3⟩ < 0 THEN length(⟨1⟩) ELSE ⟨3⟩ END END, 2147483647)",
        ("this", "expression", "from_", "for_"),
    ),
    # time
    exp.UnixMillis: (_floor_micros(1000), ("this",)),
    exp.UnixSeconds: (_floor_micros(1_000_000), ("this",)),
    exp.AddMonths: ("CAST(CAST(⟨0⟩ AS DATE) + INTERVAL (⟨1⟩) MONTH AS DATE)", ("this", "expression")),
    exp.TsOrDsAdd: ("CAST(CAST(⟨0⟩ AS DATE) + INTERVAL (⟨1⟩) DAY AS DATE)", ("this", "expression")),
    exp.MonthsBetween: (
        f"CASE WHEN {_pair(_DAY, '=')} OR ({_pair(_LAST, 'AND')}) THEN CAST({_pair(_MONTHS, '-')} AS DOUBLE) "
        f"ELSE floor((({_pair(_MONTHS, '-')}) + ({_pair(_DAY, '-')} * 86400 + {_pair(_SECONDS, '-')}) "
        "/ CAST(2678400 AS DOUBLE)) * 1e8 + 0.5) / 1e8 END",
        ("this", "expression"),
    ),
    # arrays and JSON
    exp.ArrayDistinct: (_DISTINCT, ("this",)),
    exp.ArrayMax: (_extreme(">"), ("this",)),
    exp.ArrayMin: (_extreme("<"), ("this",)),
    exp.ArrayContains: (
        "CASE WHEN ⟨0⟩ IS NULL OR ⟨1⟩ IS NULL THEN NULL WHEN list_contains(⟨0⟩, ⟨1⟩) THEN true "
        f"WHEN {_HAS_NULL} THEN NULL ELSE false END",
        ("this", "expression"),
    ),
    exp.ArrayRemove: (
        "CASE WHEN ⟨1⟩ IS NULL THEN NULL ELSE list_filter(⟨0⟩, lambda e: e IS DISTINCT FROM ⟨1⟩) END",
        ("this", "expression"),
    ),
    exp.ArrayExcept: (
        "CASE WHEN ⟨0⟩ IS NULL OR ⟨1⟩ IS NULL THEN NULL "
        f"ELSE list_filter({_DISTINCT}, lambda e: coalesce(list_position(⟨1⟩, e), 0) = 0) END",
        ("this", "expression"),
    ),
    exp.ArrayIntersect: (
        "CASE WHEN ⟨0⟩ IS NULL OR ⟨1⟩ IS NULL THEN NULL "
        f"ELSE list_filter({_DISTINCT}, lambda e: coalesce(list_position(⟨1⟩, e), 0) > 0) END",
        ("expressions",),
    ),
    exp.Flatten: (f"CASE WHEN {_HAS_NULL} THEN NULL ELSE flatten(⟨0⟩) END", ("this",)),
    "json_array_length": (
        "CASE WHEN json_valid(⟨0⟩) AND json_type(⟨0⟩) = 'ARRAY' THEN CAST(json_array_length(⟨0⟩) AS INTEGER) END",
        (),
    ),
}
