"""The sandbox: what is let in, and the ways around that are not."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from sqlglot import exp

from millstream.duck import store_sql
from millstream.duck.functions import create_scalar_functions
from millstream.model.errors import MillstreamError
from millstream.sql import AGGREGATES, check_query, parse_statement
from millstream.sql.allowlist import (
    AGGREGATE_EXAMPLES,
    CLOCKS,
    NOTES,
    ROW_FUNCTIONS,
    SCALARS,
    WINDOWED,
)
from millstream.sql.signatures import OPERATORS
from millstream.sql.statements import Select


def query_of(text: str) -> exp.Query:
    statement = parse_statement(text)
    assert isinstance(statement, Select)
    return statement.query


def refused(text: str, **arguments: object) -> MillstreamError:
    with pytest.raises(MillstreamError) as caught:
        check_query(query_of(text), text=text, **arguments)  # type: ignore[arg-type]
    return caught.value


@pytest.fixture(scope="module")
def store() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    create_scalar_functions(connection)
    connection.execute("CREATE TABLE t AS SELECT * FROM (VALUES (1, 'a'), (2, 'b'), (NULL, 'c')) AS t(x, s)")
    return connection


ONCE = {**SCALARS, **CLOCKS}
OVER_ROWS = {**AGGREGATE_EXAMPLES, **{name: call for name, call in WINDOWED.items() if name != "grouping"}}


@pytest.mark.parametrize("name", sorted(ONCE))
def test_every_scalar_runs_in_the_store(name: str, store: duckdb.DuckDBPyConnection) -> None:
    text = f"SELECT {ONCE[name]} AS v"
    query = query_of(text)
    check_query(query, text=text, continuous=name not in CLOCKS)
    store.execute(store_sql(query)).fetchall()
    printed = query.sql(dialect="streamsql")
    assert query_of(printed).sql(dialect="streamsql") == printed


@pytest.mark.parametrize("name", sorted(OVER_ROWS))
def test_every_aggregate_and_window_function_runs_in_the_store(name: str, store: duckdb.DuckDBPyConnection) -> None:
    text = f"SELECT {OVER_ROWS[name]} AS v FROM t"
    query = query_of(text)
    check_query(query, text=text)
    store.execute(store_sql(query)).fetchall()


# name → the value in Spark; each was computed there in ANSI mode with a UTC session.
SPARK_VALUES = {
    "mod(-7, 3)": -1,
    "7 div 2": 3,
    "floor(-1.2)": -2,
    "concat('a', NULL)": None,
    "concat_ws('-', 'a', NULL, 'b')": "a-b",
    "instr('hello', 'z')": 0,
    "date_format(TIMESTAMP '2024-01-02 13:04:05', 'yyyyMMdd HHmmss')": "20240102 130405",
    "date_trunc('WEEK', TIMESTAMP '2024-01-12 03:04:05') = TIMESTAMP '2024-01-08 00:00:00'": True,
    "datediff(TIMESTAMP '2024-02-01 01:00:00', TIMESTAMP '2024-01-31 23:00:00')": 1,
    "timestamp_seconds(1700000000) = TIMESTAMP '2023-11-14 22:13:20'": True,
    "timestamp_millis(-1) = TIMESTAMP '1969-12-31 23:59:59.999'": True,
    "element_at(array(1, 2), -1)": 2,
    "array(1, 2)[0]": 1,
    "array_sort(array(3, NULL, 2))": [2, 3, None],
    "sort_array(array(3, 1, 2), false)": [3, 2, 1],
    "slice(array(1, 2, 3, 4), 2, 2)": [2, 3],
    "split('a.b', '\\\\.')": ["a", "b"],
    "regexp_extract('100-200', '(\\\\d+)-(\\\\d+)')": "100",
    "get_json_object('{\"a\": [1, 2]}', '$.a[1]')": "2",
    "try_divide(1, 0)": None,
    "greatest(1, NULL)": 1,
    "isnull(NULL) AND NOT isnotnull(NULL)": True,
    "negative(3) - positive(2)": -5,
    "substr('hello', -3)": "llo",
    "1 <=> NULL": False,
    "date_part('hour', TIMESTAMP '2024-01-02 03:04:05')": 3,
}


@pytest.mark.parametrize("call", sorted(SPARK_VALUES))
def test_the_store_gives_the_value_of_spark(call: str, store: duckdb.DuckDBPyConnection) -> None:
    text = f"SELECT {call} AS v"
    query = query_of(text)
    check_query(query, text=text)
    assert store.execute(store_sql(query)).fetchone() == (SPARK_VALUES[call],)


def test_notes_are_about_functions_of_the_list() -> None:
    assert set(NOTES) <= {*SCALARS, *AGGREGATES, *OPERATORS}
    assert "posexplode" in ROW_FUNCTIONS


GOOD = [
    "SELECT a, b AS c, t.d, s.e.f, m['k'], l[0], t.* FROM t",
    "SELECT * EXCEPT (a) FROM t WHERE a > 1 AND NOT b OR c IS NULL AND d IN (1, 2) AND e BETWEEN 1 AND 2",
    "SELECT DISTINCT a FROM t ORDER BY 1 DESC NULLS LAST LIMIT 10 OFFSET 2",
    "SELECT a, count(*) FILTER (WHERE b > 1), sum(DISTINCT c) FROM t GROUP BY ALL HAVING count(*) > 1",
    "SELECT a, grouping(a), count(*) FROM t GROUP BY ROLLUP (a)",
    "SELECT row_number() OVER (PARTITION BY a ORDER BY b ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t",
    "SELECT sum(a) OVER w FROM t WINDOW w AS (ORDER BY b)",
    "SELECT a FROM t QUALIFY rank() OVER (ORDER BY b) <= 3",
    "WITH x AS (SELECT 1 AS a) SELECT a FROM x UNION ALL SELECT 2 EXCEPT SELECT 3",
    "SELECT a FROM t LEFT JOIN u USING (k) CROSS JOIN w LEFT SEMI JOIN z ON t.a = z.a LEFT ANTI JOIN y ON t.a = y.a",
    "SELECT a FROM t JOIN u FOR SYSTEM_TIME AS OF t.ts ON t.a = u.a",
    "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.a) AND a IN (SELECT a FROM w)",
    "SELECT e, p FROM t LATERAL VIEW explode(a) q AS e LATERAL VIEW posexplode(b) r AS p, x",
    "SELECT x FROM t, UNNEST(t.a) AS u(x)",
    "SELECT * FROM explode(array(1, 2))",
    "SELECT * FROM VALUES (1, 2) AS v(a, b)",
    "SELECT * FROM (SELECT k, v FROM t) PIVOT (sum(v) FOR k IN (1, 2))",
    "SELECT CAST(a AS STRUCT<b: ARRAY<INT>>), a::BIGINT, TRY_CAST(a AS DECIMAL(10, 2)) FROM t",
    "SELECT transform(a, x -> x.b + 1), filter(a, x -> x > 0), aggregate(a, 0, (s, x) -> s + x) FROM t",
    "SELECT a || b, -a, ~a, a << 1, a <=> b, a LIKE 'x%', a RLIKE 'b', a IS DISTINCT FROM b FROM t",
    "SELECT ts - INTERVAL 1 DAY, ts + INTERVAL '1 hour 30 minutes', TIMESTAMP '2024-01-01', X'1f' FROM t",
    "SELECT extract(YEAR FROM ts), date_trunc('week', ts), dateadd(DAY, 1, ts) FROM t",
    "SELECT window_start FROM TUMBLE(bids, ts, INTERVAL 1 SECOND)",
    "SELECT user, emit, stream FROM t",
]


@pytest.mark.parametrize("text", GOOD)
def test_ordinary_queries_pass(text: str) -> None:
    check_query(query_of(text), text=text)


ATTACKS = (Path(__file__).parent / "attacks.sql").read_text().split("\n")


@pytest.mark.parametrize("text", [line for line in ATTACKS if line and not line.startswith("--")])
def test_attacks_are_refused(text: str) -> None:
    def read() -> None:
        check_query(query_of(text), text=text)

    with pytest.raises(MillstreamError) as caught:
        read()
    assert caught.value.position is not None
    assert caught.value.code in {
        "ARGUMENT_NOT_ALLOWED",
        "FUNCTION_NOT_ALLOWED",
        "SYNTAX_NOT_ALLOWED",
        "BAD_NAME",
        "SYNTAX_ERROR",
        "UNKNOWN_STATEMENT",
        "HINT_NOT_ALLOWED",
    }


def test_the_position_is_that_of_the_function() -> None:
    text = "SELECT a,\n  lowwer(b) FROM t"
    error = refused(text)
    assert error.code == "FUNCTION_NOT_ALLOWED"
    assert error.message == "function 'lowwer' is not allowed here"
    assert error.hint == "did you mean 'lower'?"
    assert error.position is not None
    assert (error.position.line, error.position.column) == (2, 3)
    assert text[error.position.start : error.position.end] == "lowwer"


@pytest.mark.parametrize("call", sorted(CLOCKS.values()))
def test_only_a_query_answered_once_reads_the_clock(call: str) -> None:
    text = f"SELECT {call} FROM t"
    check_query(query_of(text), text=text, continuous=False)
    assert "same answer" in (refused(text).hint or "")


def test_sampling_is_for_queries_answered_once() -> None:
    text = "SELECT a FROM t TABLESAMPLE (10 PERCENT)"
    check_query(query_of(text), text=text, continuous=False)
    assert refused(text).code == "SYNTAX_NOT_ALLOWED"


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ("WITH RECURSIVE r AS (SELECT 1 AS a UNION ALL SELECT a + 1 FROM r) SELECT a FROM r", "join the steps"),
        ("SELECT a FROM t UNION ALL BY NAME SELECT a FROM u", "same order"),
        ("SELECT DISTINCT ON (a) a, b FROM t", "row_number()"),
        ("SELECT a FROM t WHERE b LIKE ANY ('x%', 'y%')", "OR"),
        ("SELECT a FROM t TABLESAMPLE (10 PERCENT)", "% 10"),
        ("SELECT window(ts, '10 seconds') AS w FROM t", "TUMBLE"),
        ("SELECT unix_timestamp(ts) AS s FROM t", "unix_seconds"),
    ],
)
def test_a_refusal_says_what_to_write_instead(text: str, instead: str) -> None:
    assert instead in (refused(text).hint or "")


@pytest.mark.parametrize("word", ["ANY", "SOME", "ALL"])
def test_a_comparison_with_all_rows_of_a_subquery_is_let_in(word: str) -> None:
    text = f"SELECT a FROM t WHERE a > {word} (SELECT b FROM u)"
    check_query(query_of(text), text=text)


def test_windows_are_for_views() -> None:
    text = "SELECT * FROM HOP(s, ts, INTERVAL 1 SECOND, INTERVAL 2 SECONDS)"
    assert "computed by views" in (refused(text, continuous=False).hint or "")


def test_registered_functions_are_let_in_by_their_bare_name() -> None:
    text = "SELECT My_Udf(a), `my_udf`(b) FROM t"
    check_query(query_of(text), text=text, udfs={"my_udf"})
    assert refused(text).code == "FUNCTION_NOT_ALLOWED"
    assert refused("SELECT a.my_udf(b) FROM t", udfs={"my_udf"}).code == "FUNCTION_NOT_ALLOWED"
    assert refused("SELECT * FROM my_udf(1)", udfs={"my_udf"}).code == "FUNCTION_NOT_ALLOWED"
