"""Calls of known functions: the forms that are known pass, and nothing that a printer would leave out."""

from __future__ import annotations

import pytest

from millstream.model.errors import MillstreamError
from millstream.sql import parse_statement
from millstream.sql.allowlist import SCALARS
from millstream.sql.functions import check_query
from millstream.sql.signatures import SIGNATURES, forms
from millstream.sql.statements import Select

CALLS = [
    "sha2(s, 512)",
    "split(s, '-', 2)",
    "aggregate(a, 0L, (acc, x) -> acc + x, z -> z * 10)",
    "regexp_replace(s, '0', 'x', 5)",
    "encode(s, 'utf-16')",
    "levenshtein(s, 'x', 2)",
    "overlay(s PLACING 'x' FROM 2)",
    "ceil(x, 2)",
    "array_intersect(a, a, a)",
    "json_array_length()",
    "size(array())",
    "size(map()) + 1",
    "substring(s)",
    "regexp_replace(s, '0')",
    *(f"1 + {name}()" for name in ("year", "month", "day", "dayofyear", "weekofyear", "datediff", "lower", "abs")),
    "datediff(x)",
]
FORMATS = [
    "date_format(ts, 'yyyy-MM-dd HH:mm:ss.SSS')",
    "date_format(ts, \"yyyy-MM-dd'T'HH:mm:ss\")",
    *(
        f"date_format(ts, '{letters}')"
        for letters in ("Q", "yyyyy", "MMMMM", "EEEEE", "D", "DD", "DDD", "S", "k", "LLL", "w", "QQQQQQ", "dd%")
    ),
    "to_timestamp(s, 'yyyy-MM-dd HH:mm:ss.SSS')",
    "to_date(s, 'D')",
]


def check(call: str, *, continuous: bool = True) -> None:
    text = f"SELECT {call}"
    statement = parse_statement(text)
    assert isinstance(statement, Select)
    check_query(statement.query, text=text, continuous=continuous)


@pytest.mark.parametrize("continuous", [True, False])
@pytest.mark.parametrize("call", CALLS)
def test_other_arguments_are_refused(call: str, continuous: bool) -> None:
    with pytest.raises(MillstreamError) as caught:
        check(call, continuous=continuous)
    assert caught.value.code in {"ARGUMENT_NOT_ALLOWED", "SYNTAX_ERROR"}
    assert caught.value.position is not None


@pytest.mark.parametrize("call", FORMATS)
def test_formats_that_are_not_written_or_read_alike_are_refused(call: str) -> None:
    with pytest.raises(MillstreamError) as caught:
        check(call)
    assert caught.value.code == "FORMAT_NOT_ALLOWED"
    assert caught.value.position is not None


def test_a_format_is_a_constant() -> None:
    with pytest.raises(MillstreamError) as caught:
        check("date_format(ts, s)")
    assert caught.value.code == "ARGUMENT_NOT_ALLOWED"


@pytest.mark.parametrize(
    "call", [*SCALARS.values(), *(forms(one)[0][0] for some in SIGNATURES.values() for one in some)]
)
def test_known_forms_pass(call: str) -> None:
    check(call)


@pytest.mark.parametrize(
    "call", ["coalesce(a, b, c, d)", "greatest(a, b)", "array(1)", "concat(a, b, c, d)", "struct(a)", "map(a, 1, b, 2)"]
)
def test_some_calls_take_as_many_arguments_as_one_likes(call: str) -> None:
    check(call)
