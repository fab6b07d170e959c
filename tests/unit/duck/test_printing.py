"""The store's SQL: what is refused, how arguments are written, users' functions."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

from millstream.duck import store_sql
from millstream.duck.functions import create_scalar_functions
from millstream.duck.regexes import store_pattern, store_replacement
from millstream.model.errors import MillstreamError
from millstream.sql import bind_calls, parse_statement, spark_sql
from millstream.sql.formats import format_regex, strftime_format
from millstream.sql.statements import Select
from millstream.store.duckdb.connection import store_error


def written(text: str) -> str:
    statement = parse_statement(text)
    assert isinstance(statement, Select)
    return store_sql(statement.query)


@pytest.fixture(scope="module")
def store() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    create_scalar_functions(connection)
    connection.execute(
        "CREATE TABLE t AS SELECT 7::BIGINT AS x, 0::BIGINT AS z, 1.5::DECIMAL(3, 1) AS d, 'Éa' AS s, [1, 2] AS l"
    )
    return connection


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("SELECT lower(concat(s, 'X')) FROM t", "éax"),
        ("SELECT round((x + 0.5D) / 3, 2) FROM t", 2.5),
        ("SELECT round(sum(x) / count(*), 1) FROM t", 7.0),
        ("SELECT sum(cast(cast(cast(x AS STRING) AS DOUBLE) AS INT)) FROM t", 7),
        ("SELECT aggregate(l, 0, (a, e) -> a + e % 2) FROM t", 1),
        ("SELECT try_cast(s AS INT) FROM t", None),
        ("SELECT try_cast('x' AS INT) FROM t", None),
        ("SELECT cast(2.9 AS INT) FROM t", 2),
        ("SELECT max(x) OVER (ORDER BY x) / 2 FROM t", 3.5),
        ("SELECT x / 2 FROM t GROUP BY x / 2", 3.5),
        ("SELECT lower(s || s) FROM t GROUP BY lower(s || s)", "éaéa"),
    ],
)
def test_forms_hold_anywhere_in_a_query(text: str, value: object, store: duckdb.DuckDBPyConnection) -> None:
    assert store.sql(written(text)).fetchall() == [(value,)]


def test_a_type_without_a_form_is_refused_before_any_row(store: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(duckdb.Error) as caught:
        store.sql(f"SELECT TRY(v) FROM ({written('SELECT d div 2 AS v FROM t WHERE false')})")
    error = store_error(caught.value)
    assert error.code == "ARGUMENT_NOT_ALLOWED"
    assert error.message.startswith("div takes integers in the store")


def test_a_row_that_fails_says_why_and_may_stand_in_try(store: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(duckdb.Error) as caught:
        store.sql(written("SELECT x / z FROM t")).fetchall()
    assert (store_error(caught.value).code, store_error(caught.value).message) == (
        "EXPRESSION_FAILED",
        "division by zero",
    )
    inner = written("SELECT x / z FROM t").removeprefix("SELECT ").removesuffix(" FROM t")
    assert store.sql(f"SELECT TRY({inner}) FROM t").fetchall() == [(None,)]


@pytest.mark.parametrize(
    "pattern",
    ["(?=a)", "(?<n>a)", "(?i)a", r"(a)\1", "a++", "a*+", "[a[b]]", "[a&&b]", r"\p{L}", "a$b", r"\h", "a\\", "[]"],
)
def test_patterns_that_engines_read_differently_are_refused(pattern: str) -> None:
    with pytest.raises(MillstreamError) as caught:
        store_pattern(pattern)
    assert caught.value.code == "PATTERN_NOT_ALLOWED"


@pytest.mark.parametrize("pattern", [r"^\d+(?:a|b)*?[^x-z]\.\w{2,3}$", r"[\d\-.]+", "(a|b$)", "é+", r"\bfoo\b"])
def test_ordinary_patterns_pass(pattern: str, store: duckdb.DuckDBPyConnection) -> None:
    assert store.execute("SELECT regexp_matches('', ?)", [store_pattern(pattern)]).fetchone() is not None


def test_patterns_and_replacements_are_constants() -> None:
    for text in ("SELECT s RLIKE s FROM t", "SELECT regexp_replace(s, 'a', s) FROM t", "SELECT split(s, s) FROM t"):
        with pytest.raises(MillstreamError):
            written(text)
    for replacement in ("$", "a$b", "\\"):
        with pytest.raises(MillstreamError):
            store_replacement(replacement)
    assert store_replacement(r"\$1\\2") == r"$1\\2"


def test_formats_are_written_and_read_strictly() -> None:
    assert strftime_format("%Y-%mstrict-%dstrict") == "%Y-%m-%d"
    assert format_regex("%dstrict.%mstrict") == r"[0-9]{2}\.[0-9]{2}"
    for unknown in ("%Q", "%Y G", "[%Y]"):
        with pytest.raises(MillstreamError):
            strftime_format(unknown)
    with pytest.raises(MillstreamError):
        format_regex("%A")


def test_users_functions_are_called_by_names_of_their_own() -> None:
    statement = parse_statement("SELECT Read_Text(x + 1) FROM t")
    assert isinstance(statement, Select)
    bound = bind_calls(statement.query, {"read_text": (pa.int64(),)})
    assert store_sql(bound) == "SELECT udf_read_text(CAST(x + 1 AS BIGINT)) FROM t"
    assert "__udf_read_text(__try(CAST(x + 1 AS BIGINT)))" in spark_sql(bound)
    assert "Read_Text" not in spark_sql(bound)
