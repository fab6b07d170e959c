"""Applying a user's function: it never raises, and only failing rows have an error."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from millstream.model.errors import MillstreamError
from millstream.model.user_functions import UserFunction

BIGINT = pa.int64()


def applied(function: Any, values: list[Any], returns: pa.DataType = BIGINT) -> list[tuple[Any, str | None]]:
    made = UserFunction("f", (pa.int64(),), returns, function)
    results, errors = made.apply([pa.array(values, pa.int64())])
    assert results.type == returns
    assert errors.type == pa.string()
    return list(zip(results.to_pylist(), errors.to_pylist(), strict=True))


def test_a_batch_is_one_call() -> None:
    calls: list[int] = []

    def twice(values: pa.Array) -> pa.Array:
        calls.append(len(values))
        return pc.multiply(values, 2)

    assert applied(twice, [1, None, 3]) == [(2, None), (None, None), (6, None)]
    assert calls == [3]


def test_rows_that_fail_are_told_from_those_that_do_not() -> None:
    def picky(values: pa.Array) -> pa.Array:
        if 2 in values.to_pylist():
            raise RuntimeError("no twos\nplease")
        return values

    (one, two, three) = applied(picky, [1, 2, 3])
    assert (one, two[0], three) == ((1, None), None, (3, None))
    line = picky.__code__.co_firstlineno + 2
    assert two[1] == f'f: RuntimeError: no twos, in f(2) at {__file__}:{line}: raise RuntimeError("no twos\\nplease")'


def test_no_rows_are_no_rows() -> None:
    def fails(values: pa.Array) -> pa.Array:
        raise RuntimeError

    assert applied(fails, []) == []


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (7, "f: TypeError: it must return a pyarrow.Array, not int"),
        (None, "f: TypeError: it must return a pyarrow.Array, not NoneType"),
        (pa.array([1, 2, 3]), "f: ValueError: it returned 3 values for 1 rows"),
        (pa.array(["1"]), "f: TypeError: it must return BIGINT, not Arrow's string"),
        (pa.array([1.0]), "f: TypeError: it must return BIGINT, not Arrow's double"),
    ],
)
def test_a_wrong_result_is_an_error_of_the_row(result: Any, reason: str) -> None:
    assert applied(lambda values: result, [1]) == [(None, reason)]


def test_a_result_may_be_narrower_or_chunked() -> None:
    assert applied(lambda values: pa.chunked_array([pa.array([1], pa.int8())]), [0]) == [(1, None)]
    assert applied(lambda values: pa.nulls(len(values)), [0]) == [(None, None)]


def test_a_value_that_does_not_fit_is_an_error_of_its_row() -> None:
    found = applied(lambda values: values, [1, 300], pa.int8())
    assert found[0] == (1, None)
    assert found[1][0] is None
    assert (found[1][1] or "").startswith("f: ArrowInvalid: ")


def test_an_argument_that_does_not_fit_its_type_is_an_error_of_its_row() -> None:
    made = UserFunction("f", (pa.int8(),), pa.int8(), lambda values: values)
    values, errors = made.apply([pa.array([1, 300], pa.int64())])
    assert values.to_pylist() == [1, None]
    assert errors.null_count == 1


def test_trying_out_needs_no_rows_and_forgives_functions_that_do() -> None:
    UserFunction("f", (pa.int64(),), pa.int64(), lambda values: pa.array([values[0].as_py()])).try_out()
    with pytest.raises(MillstreamError) as caught:
        UserFunction("f", (pa.int64(),), pa.int64(), lambda values: "no").try_out()
    assert caught.value.code == "BAD_FUNCTION"
