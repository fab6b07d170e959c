"""What the functions of the allowlist take, as data.

Owns the forms of call that are known to give the same value on Spark and in the store. A word in
braces stands for an argument and names its kind; everything else stands as it is written, so an
argument that is a constant must be one. `docs/functions.md` prints the forms, and a test runs each
on both engines over the edges of its kinds. A function without a form here is in no document and
in no query.
"""

from __future__ import annotations

import re
from itertools import product

KINDS: dict[str, tuple[str, ...]] = {
    "integer": ("TINYINT", "SMALLINT", "INT", "BIGINT"),
    "number": ("INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(10, 2)"),
    "binary number": ("INT", "BIGINT", "FLOAT", "DOUBLE"),
    "exact": ("INT", "BIGINT", "DECIMAL(10, 2)"),
    "real": ("FLOAT", "DOUBLE"),
    "int": ("INT",),
    "bigint": ("BIGINT",),
    "double": ("DOUBLE",),
    "decimal": ("DECIMAL(10, 2)",),
    "count": ("COUNT",),
    "string": ("STRING",),
    "binary": ("BINARY",),
    "boolean": ("BOOLEAN",),
    "date": ("DATE",),
    "timestamp": ("TIMESTAMP",),
    "time": ("DATE", "TIMESTAMP"),
    "any": ("INT", "BIGINT", "DOUBLE", "DECIMAL(10, 2)", "STRING", "BOOLEAN", "DATE", "TIMESTAMP"),
    "array": ("ARRAY<INT>", "ARRAY<STRING>", "ARRAY<DOUBLE>"),
    "ints": ("ARRAY<INT>",),
    "strings": ("ARRAY<STRING>",),
    "arrays": ("ARRAY<ARRAY<INT>>",),
    "map": ("MAP<STRING, INT>",),
    "json": ("JSON",),
}
"""The types that a kind stands for. COUNT is an INT and JSON a STRING, with values that fit the purpose."""

OPERATORS: dict[str, tuple[str, ...]] = {
    "+": ("{number} + {number}", "{int} + {bigint}", "{int} + {double}", "{decimal} + {int}"),
    "-": ("{number} - {number}", "- {number}"),
    "*": ("{number} * {number}", "{decimal} * {int}"),
    "/": ("{binary number} / {binary number}", "{int} / {double}"),
    "%": ("{number} % {number}",),
    "& | ^ ~": ("{integer} & {integer}", "{integer} | {integer}", "{integer} ^ {integer}", "~ {integer}"),
    "||": ("{string} || {string}",),
    "= <> <=>": ("{any} = {any}", "{any} <> {any}", "{any} <=> {any}", "{any} IS DISTINCT FROM {any}"),
    "< <= > >=": ("{any} < {any}", "{any} <= {any}", "{any} > {any}", "{any} >= {any}"),
    "BETWEEN": ("{any} BETWEEN {any} AND {any}", "{any} NOT BETWEEN {any} AND {any}"),
    "IN": ("{any} IN ({any}, {any})", "{any} NOT IN ({any}, NULL)"),
    "AND OR NOT": ("{boolean} AND {boolean}", "{boolean} OR {boolean}", "NOT {boolean}"),
    "IS": ("{any} IS NULL", "{any} IS NOT NULL"),
    "LIKE": (
        "{string} LIKE 'a%'",
        "{string} LIKE '_'",
        "{string} LIKE '%é%'",
        r"{string} LIKE '%\\%%'",
        "{string} LIKE '%!_%' ESCAPE '!'",
        "{string} ILIKE 'A%'",
        "{string} NOT LIKE 'a%'",
        "{string} NOT ILIKE 'É%'",
        "{string} NOT LIKE '%!_%' ESCAPE '!'",
        "{string} LIKE {string}",
    ),
    "INTERVAL": (
        "{timestamp} + INTERVAL 1 DAY",
        "{timestamp} - INTERVAL 90 MINUTES",
        "{timestamp} + INTERVAL 1 MONTH",
        "{timestamp} - INTERVAL 1 YEAR",
        "{timestamp} + INTERVAL '1 hour 30 minutes'",
        "{date} + INTERVAL 1 DAY",
        "{date} - INTERVAL 1 MONTH",
        "{date} + INTERVAL 1 YEAR",
        "{date} + INTERVAL 36 HOURS",
    ),
    "[]": ("{array}[0]", "{map}['a']"),
}

_CALENDAR = ("day", "dayofmonth", "dayofyear", "month", "quarter", "weekofyear", "year")
_FIELDS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE")

SIGNATURES: dict[str, tuple[str, ...]] = {
    # conditions
    "case": ("CASE WHEN {boolean} THEN {any} ELSE {any} END", "CASE {any} WHEN {any} THEN 1 END"),
    "coalesce": ("coalesce({any}, {any})", "coalesce({any})"),
    "decode": ("decode({any}, {any}, 'one', 'other')",),
    "equal_null": ("equal_null({any}, {any})",),
    "greatest": ("greatest({any}, {any}, {any})",),
    "if": ("if({boolean}, {any}, {any})",),
    "ifnull": ("ifnull({any}, {any})",),
    "isnan": ("isnan({real})",),
    "isnotnull": ("isnotnull({any})",),
    "isnull": ("isnull({any})",),
    "least": ("least({any}, {any}, {any})",),
    "nullif": ("nullif({any}, {any})",),
    "nullifzero": ("nullifzero({number})",),
    "nvl": ("nvl({any}, {any})",),
    "nvl2": ("nvl2({any}, {int}, {int})",),
    "zeroifnull": ("zeroifnull({number})",),
    # conversions
    "cast": (
        "cast({number} AS TINYINT)",
        "cast({number} AS SMALLINT)",
        "cast({number} AS INT)",
        "cast({number} AS BIGINT)",
        "cast({number} AS FLOAT)",
        "cast({number} AS DOUBLE)",
        "cast({number} AS DECIMAL(10, 2))",
        "cast({number} AS DECIMAL(20, 5))",
        "cast({number} AS STRING)",
        "cast({number} AS BOOLEAN)",
        "cast({string} AS INT)",
        "cast({string} AS BIGINT)",
        "cast({string} AS DOUBLE)",
        "cast({string} AS DECIMAL(10, 2))",
        "cast({string} AS BOOLEAN)",
        "cast({string} AS DATE)",
        "cast({string} AS TIMESTAMP)",
        "cast({string} AS BINARY)",
        "cast({boolean} AS INT)",
        "cast({boolean} AS DOUBLE)",
        "cast({boolean} AS STRING)",
        "cast({date} AS STRING)",
        "cast({date} AS TIMESTAMP)",
        "cast({timestamp} AS STRING)",
        "cast({timestamp} AS DATE)",
        "cast({timestamp} AS BIGINT)",
        "cast({binary} AS STRING)",
    ),
    "date": ("date({timestamp})", "date({string})"),
    "double": ("double({number})", "double({string})"),
    "float": ("float({number})",),
    "int": ("int({number})", "int({string})"),
    "string": ("string({any})",),
    "timestamp": ("timestamp({date})", "timestamp({string})"),
    "try_cast": (
        "try_cast({string} AS INT)",
        "try_cast({string} AS DOUBLE)",
        "try_cast({string} AS DATE)",
        "try_cast({string} AS TIMESTAMP)",
        "try_cast({string} AS BOOLEAN)",
        "try_cast({string} AS DECIMAL(10, 2))",
        "try_cast({bigint} AS INT)",
        "try_cast({double} AS INT)",
    ),
    # numbers
    "abs": ("abs({number})",),
    **{
        name: (f"{name}({{double}})", f"{name}({{int}})")
        for name in (
            "acos", "asin", "atan", "cbrt", "cos", "cosh", "cot", "degrees", "exp", "ln", "log10", "log2",
            "radians", "sin", "sinh", "sqrt", "tan", "tanh", "sign", "signum",
        )
    },
    "atan2": ("atan2({double}, {double})",),
    "bin": ("bin({integer})",),
    "bit_count": ("bit_count({integer})",),
    "ceil": ("ceil({number})",),
    "ceiling": ("ceiling({number})",),
    "div": ("{integer} div {integer}",),
    "factorial": ("factorial({int})",),
    "floor": ("floor({number})",),
    "log": ("log({double}, {double})", "log({double})"),
    "mod": ("mod({number}, {number})",),
    "negative": ("negative({number})",),
    "pi": ("pi()",),
    "positive": ("positive({number})",),
    "pow": ("pow({double}, {double})", "pow({int}, {int})"),
    "power": ("power({double}, {double})",),
    "round": (
        "round({exact})",
        "round({decimal}, 1)",
        "round({int}, -1)",
        "round({real})",
        "round({number}, 2)",
    ),
    "shiftleft": ("shiftleft({int}, {count})", "shiftleft({bigint}, {count})"),
    "shiftright": ("shiftright({int}, {count})", "shiftright({bigint}, {count})"),
    "try_divide": ("try_divide({binary number}, {binary number})",),
    # strings
    "ascii": ("ascii({string})",),
    "base64": ("base64({string})", "base64({binary})"),
    "bit_length": ("bit_length({string})",),
    "btrim": ("btrim({string})", "btrim({string}, {string})"),
    "char_length": ("char_length({string})",),
    "character_length": ("character_length({string})",),
    "chr": ("chr({int})",),
    "concat": ("concat({string}, {string})", "concat({string})"),
    "concat_ws": ("concat_ws({string}, {string}, {string})",),
    "contains": ("contains({string}, {string})",),
    "encode": ("encode({string}, 'utf-8')",),
    "endswith": ("endswith({string}, {string})",),
    "hex": ("hex({bigint})", "hex({string})", "hex({binary})"),
    "initcap": ("initcap({string})",),
    "instr": ("instr({string}, {string})",),
    "lcase": ("lcase({string})",),
    "left": ("left({string}, {count})",),
    "len": ("len({string})",),
    "length": ("length({string})", "length({binary})"),
    "levenshtein": ("levenshtein({string}, {string})",),
    "locate": ("locate({string}, {string})", "locate({string}, {string}, {count})"),
    "lower": ("lower({string})",),
    "lpad": ("lpad({string}, {count}, {string})", "lpad({string}, {count})"),
    "ltrim": ("ltrim({string})",),
    "md5": ("md5({string})", "md5({binary})"),
    "overlay": ("overlay({string} PLACING {string} FROM {count} FOR {count})",),
    "position": ("position({string} IN {string})",),
    "regexp_count": ("regexp_count({string}, 'a+')",),
    "regexp_extract": (r"regexp_extract({string}, '([a-z]+)(\\d*)', 1)", r"regexp_extract({string}, '(a)|(b)', 2)"),
    "regexp_extract_all": (r"regexp_extract_all({string}, '(\\w)', 1)",),
    "regexp_like": ("regexp_like({string}, '^a.*')", r"regexp_like({string}, '\\s$')"),
    "regexp_replace": (r"regexp_replace({string}, '\\w', '#')", r"regexp_replace({string}, '(a)(b)', '$2$1')"),
    "repeat": ("repeat({string}, {count})",),
    "replace": ("replace({string}, {string}, {string})", "replace({string}, {string})"),
    "reverse": ("reverse({string})",),
    "right": ("right({string}, {count})",),
    "rlike": ("{string} RLIKE 'b+'", "{string} RLIKE '^.$'", "{string} NOT RLIKE 'a'"),
    "rpad": ("rpad({string}, {count}, {string})",),
    "rtrim": ("rtrim({string})",),
    "sha": ("sha({string})",),
    "sha1": ("sha1({string})",),
    "sha2": ("sha2({string}, 256)",),
    "space": ("space({count})",),
    "split": ("split({string}, ',')", "split({string}, '[ab]')"),
    "split_part": ("split_part({string}, ',', {count})", "split_part({string}, {string}, 1)"),
    "startswith": ("startswith({string}, {string})",),
    "substr": ("substr({string}, {count}, {count})", "substr({string}, {count})"),
    "substring": ("substring({string}, {count}, {count})",),
    "translate": ("translate({string}, 'ab', 'x')", "translate({string}, {string}, {string})"),
    "trim": ("trim({string})", "trim(BOTH {string} FROM {string})", "trim(LEADING 'a' FROM {string})"),
    "ucase": ("ucase({string})",),
    "unhex": ("unhex({string})",),
    "upper": ("upper({string})",),
    # time
    "add_months": ("add_months({date}, {count})",),
    "date_add": ("date_add({date}, {count})",),
    "date_diff": ("date_diff({time}, {time})",),
    "date_format": (
        "date_format({timestamp}, 'yyyy-MM-dd HH:mm:ss')",
        "date_format({timestamp}, 'dd/MM/yy hh:mm a')",
        "date_format({timestamp}, 'EEEE, MMM d')",
        "date_format({date}, 'yyyyMMdd')",
    ),
    "date_part": ("date_part('year', {time})", "date_part('hour', {timestamp})"),
    "date_sub": ("date_sub({date}, {count})",),
    "date_trunc": tuple(
        f"date_trunc('{unit}', {{timestamp}})"
        for unit in ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND")
    ),
    "dateadd": ("dateadd(DAY, {count}, {timestamp})", "dateadd(MONTH, {count}, {timestamp})"),
    "datediff": ("datediff({time}, {time})",),
    **{name: (f"{name}({{time}})",) for name in _CALENDAR},
    "extract": tuple(
        f"extract({field} FROM {{timestamp}})" for field in _FIELDS
    ),
    "from_unixtime": ("from_unixtime({bigint})",),
    **{name: (f"{name}({{timestamp}})",) for name in ("hour", "minute", "second")},
    "last_day": ("last_day({date})",),
    "make_date": ("make_date({int}, {count}, {count})",),
    "make_timestamp": ("make_timestamp({int}, {count}, {count}, {count}, {count}, {count})",),
    "months_between": ("months_between({time}, {time})",),
    "next_day": ("next_day({date}, 'MON')", "next_day({date}, 'friday')"),
    "timestamp_micros": ("timestamp_micros({bigint})",),
    "timestamp_millis": ("timestamp_millis({bigint})",),
    "timestamp_seconds": ("timestamp_seconds({bigint})", "timestamp_seconds({int})"),
    "timestampadd": ("timestampadd(HOUR, {count}, {timestamp})",),
    "to_date": ("to_date({string})", "to_date({string}, 'dd/MM/yyyy')"),
    "to_timestamp": ("to_timestamp({string})", "to_timestamp({string}, 'dd/MM/yyyy HH:mm')"),
    "unix_date": ("unix_date({date})",),
    "unix_micros": ("unix_micros({timestamp})",),
    "unix_millis": ("unix_millis({timestamp})",),
    "unix_seconds": ("unix_seconds({timestamp})",),
    # arrays, maps, structs, JSON
    "aggregate": ("aggregate({ints}, 0L, (acc, x) -> acc + x)",),
    "array": ("array({any}, {any})",),
    "array_append": ("array_append({ints}, {int})",),
    "array_compact": ("array_compact({array})",),
    "array_contains": ("array_contains({ints}, {int})", "array_contains({strings}, {string})"),
    "array_distinct": ("array_distinct({array})",),
    "array_except": ("array_except({array}, {array})",),
    "array_intersect": ("array_intersect({array}, {array})",),
    "array_join": ("array_join({strings}, ',')", "array_join({strings}, ',', '?')"),
    "array_max": ("array_max({array})",),
    "array_min": ("array_min({array})",),
    "array_prepend": ("array_prepend({ints}, {int})",),
    "array_remove": ("array_remove({ints}, {int})",),
    "array_size": ("array_size({array})",),
    "array_sort": ("array_sort({array})",),
    "cardinality": ("cardinality({array})",),
    "element_at": ("element_at({array}, {count})", "element_at({map}, 'a')"),
    "filter": ("filter({ints}, x -> x > 1)",),
    "flatten": ("flatten({arrays})",),
    "get_json_object": ("get_json_object({json}, '$.a')", "get_json_object({json}, '$.a.b[1]')"),
    "json_array_length": ("json_array_length({json})",),
    "map": ("map('a', {int}, 'b', {int})",),
    "map_entries": ("map_entries({map})",),
    "map_keys": ("map_keys({map})",),
    "map_values": ("map_values({map})",),
    "named_struct": ("named_struct('a', {any}, 'b', {any})",),
    "sequence": ("sequence({count}, {count})", "sequence({count}, {count}, {count})"),
    "size": ("size({array})",),
    "slice": ("slice({ints}, {count}, {count})",),
    "sort_array": ("sort_array({array})", "sort_array({array}, false)"),
    "struct": ("struct({any}, {any})",),
    "transform": ("transform({ints}, x -> x + 1)",),
    "try_element_at": ("try_element_at({array}, {count})", "try_element_at({map}, 'a')"),
}  # fmt: skip

REFUSED: tuple[str, ...] = (
    "{decimal} div {decimal}",
    "{date} - {date}",
    "{timestamp} - {timestamp}",
    "{date} + INTERVAL '1 month 2 days'",
    "round({real}, -1)",
    "concat({string}, {double})",
    "{string} || {double}",
    "cast({array} AS STRING)",
    "length({int})",
    "avg({decimal})",
    "mean(DISTINCT {decimal})",
)
"""Forms that Spark computes and the store refuses when it binds a query, because it has no like."""

_ARGUMENT = re.compile(r"\{([\w ]+)\}")


def forms(template: str) -> list[tuple[str, tuple[str, ...]]]:
    """Every typing of a template: the call with arguments `a0`, `a1`, …, and their types.

    Arguments of one kind have one type at a time.

    >>> forms("abs({real})")
    [('abs(a0)', ('FLOAT',)), ('abs(a0)', ('DOUBLE',))]
    """
    kinds = _ARGUMENT.findall(template)
    count = iter(range(len(kinds)))
    call = _ARGUMENT.sub(lambda _: f"a{next(count)}", template)
    distinct = list(dict.fromkeys(kinds))
    typings = product(*(KINDS[kind] for kind in distinct))
    return [
        (call, tuple(chosen[kind] for kind in kinds))
        for types in typings
        for chosen in [dict(zip(distinct, types, strict=True))]
    ]
