"""Calls of users' functions in queries.

Owns the node that such a call becomes once it is known which function is meant, and how it is
written for Spark. On Spark the function is called `__udf_<name>` and gives a value and an error
(see `spark.functions`), of which this makes a value or a failure of the row; in the store it is
called `udf_<name>`. Neither is a name that a query could call by itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.generators.spark import SparkGenerator

from millstream.model.errors import MillstreamError
from millstream.model.schema import spark_type, store_type
from millstream.sql.positions import position_of

SPARK_TRY = "__try"
"""The function that `spark.functions` gives a session: its argument, or NULL if that fails."""


_QUOTED = r"'(?:[^'\\]|\\.)*'|`[^`]*`"


class UserCall(exp.Expression, exp.Func):
    """A call of a user's function; `types` are the declared types of its arguments."""

    arg_types = {"this": True, "expressions": True, "types": True}

    @property
    def output_name(self) -> str:
        return self.name


def bind_calls(
    query: exp.Query, functions: Mapping[str, Sequence[pa.DataType]], *, text: str = "", source: str = "<sql>"
) -> exp.Query:
    """Replace the calls of functions, given with their argument types, in place."""
    for call in list(query.find_all(exp.Anonymous)):
        types = functions.get(call.name.lower())
        if types is None:
            continue
        if len(types) != len(call.expressions):
            raise MillstreamError(
                "BAD_ARGUMENTS",
                f"{call.name} takes {len(types)} argument(s), not {len(call.expressions)}",
                position=position_of(call, text, source),
            )
        bound = UserCall(this=call.name.lower(), expressions=call.expressions, types=tuple(types))
        bound.update_positions(call)
        call.replace(bound)
    return query


def called_names(query: exp.Query) -> set[str]:
    """The names of functions that sqlglot does not know, in lower case."""
    return {call.name.lower() for call in query.find_all(exp.Anonymous)}


def spark_name(name: str) -> str:
    return f"__udf_{name.lower()}"


def store_name(name: str) -> str:
    return f"udf_{name.lower()}"


def spark_sql(expression: exp.Expr) -> str:
    """The text of an expression for Spark."""
    return expression.sql(dialect=SparkDialect)


def store_call(call: UserCall, arguments: Sequence[str]) -> str:
    """The call in the store's SQL."""
    return f"{store_name(call.name)}({', '.join(_cast(call, arguments, store_type))})"


def _cast(call: UserCall, arguments: Sequence[str], spell: Callable[[pa.DataType], str]) -> list[str]:
    pairs = zip(arguments, call.args["types"], strict=True)
    return [f"CAST({argument} AS {spell(type_)})" for argument, type_ in pairs]


def _spark_call(generator: SparkGenerator, call: UserCall) -> str:
    """A value, or a failure of the row.

    Spark computes the arguments of a Python function beforehand and for all rows, so there a failing one
    must be NULL; whether it failed is asked again where the value is needed. Spark computes a call
    once, however often it is written.
    """
    given = _cast(call, [generator.sql(argument) for argument in call.expressions], spark_type)
    safe = ", ".join(f"{SPARK_TRY}({argument})" for argument in given)
    return _value_or_failure(f"{spark_name(call.name)}({safe})", given)


def _value_or_failure(answer: str, given: Sequence[str]) -> str:
    together = f"struct({', '.join(given)})"
    return (
        f"CASE WHEN {SPARK_TRY}({together}) IS NULL THEN raise_error(CAST({together} AS STRING)) "
        f"WHEN {answer}.error IS NULL THEN {answer}.value ELSE raise_error({answer}.error) END"
    )


def spark_errors(sql: str) -> list[str]:
    """Of an expression for Spark: what each call in it says about a row that fails there, inner calls first.

    NULL where an argument fails: then the function got a NULL that nobody wrote.
    """
    calls = sorted(set(_calls(sql)), key=len)
    return [
        f"CASE WHEN {SPARK_TRY}(struct({', '.join(_given(call))})) IS NOT NULL THEN {call}.error END" for call in calls
    ]


def as_written(sql: str) -> str:
    """An expression for Spark with its calls as in the query.

    >>> call = UserCall(this="net", expressions=[exp.column("price")], types=(pa.float64(),))
    >>> as_written(f"{spark_sql(call)} + 1")
    'net(price) + 1'
    """
    for call in sorted(set(_calls(sql)), key=len, reverse=True):
        given = _given(call)
        name = call[: call.index("(")].removeprefix(spark_name(""))
        uncast = [as_written(text[len("CAST(") : text.rindex(" AS ")]) for text in given]
        sql = sql.replace(_value_or_failure(call, given), f"{name}({', '.join(uncast)})")
    return sql


def _calls(sql: str) -> list[str]:
    """The texts of all calls in an expression for Spark."""
    found = re.finditer(rf"{_QUOTED}|\b({spark_name('')}\w+\()", sql)
    return [sql[call.start() : _end(sql, call.end())] for call in found if call.group(1)]


def _given(call: str) -> list[str]:
    """The arguments of a call, cast to their types, without the attempts around them."""
    given, rest = [], call[call.index("(") + 1 : -1]
    while rest:
        end = _end(rest, len(SPARK_TRY) + 1)
        given.append(rest[len(SPARK_TRY) + 1 : end - 1])
        rest = rest[end:].removeprefix(", ")
    return given


def _end(sql: str, start: int) -> int:
    """Behind the parenthesis that closes the one before `start`."""
    depth = 1
    for token in re.finditer(rf"{_QUOTED}|[()]", sql[start:]):
        depth += {"(": 1, ")": -1}.get(token.group(), 0)
        if depth == 0:
            return start + token.end()
    return len(sql)


class _Generator(SparkGenerator):
    TRANSFORMS = {**SparkGenerator.TRANSFORMS, UserCall: _spark_call}


class SparkDialect(Spark):
    """Spark SQL with users' functions."""

    Generator = _Generator
