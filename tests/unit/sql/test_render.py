"""Rendering: canonical text that parses to the same statement."""

from __future__ import annotations

from dataclasses import fields, is_dataclass

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from millstream.model.schema import TIMESTAMP, Column, Schema
from millstream.sql import parse_statement, render
from millstream.sql.render import quote_name, quote_string, render_type
from millstream.sql.statements import (
    ClockCorrection,
    CreateStream,
    CreateTable,
    Describe,
    Insert,
    Statement,
    Watermark,
)


def plain(value: object) -> object:
    """A statement as comparable data, its queries by their text."""
    if isinstance(value, exp.Expr):
        return value.sql(dialect="streamsql")
    if is_dataclass(value):
        return (type(value), *(plain(getattr(value, f.name)) for f in fields(value) if f.compare))
    return value


def check(statement: Statement) -> None:
    text = render(statement)
    again = parse_statement(text)
    assert plain(again) == plain(statement), text
    assert render(again) == text


def test_a_stream_is_readable() -> None:
    statement = parse_statement(
        "create stream if not exists bids (auction long, `from` string, s struct<a: int, `b c`: array<string>>, "
        "ts timestamp_ntz, sent timestamp, event time ts corrected by (sent, ts), "
        "watermark for ts as ts - interval 90 seconds) with (source='log', option.rowsPerSecond=10)"
    )
    assert render(statement) == (
        "CREATE STREAM IF NOT EXISTS bids (\n"
        "  auction BIGINT,\n"
        "  `from` STRING,\n"
        "  s STRUCT<a: INT, `b c`: ARRAY<STRING>>,\n"
        "  ts TIMESTAMP,\n"
        "  sent TIMESTAMP,\n"
        "  EVENT TIME ts CORRECTED BY (sent, ts),\n"
        "  WATERMARK FOR ts AS ts - INTERVAL 90 SECONDS\n"
        ") WITH (\n"
        "  source = 'log',\n"
        "  'option.rowsPerSecond' = '10'\n"
        ")"
    )


def test_a_view_is_readable() -> None:
    statement = parse_statement(
        "CREATE VIEW v WITH (retain='7 days') AS SELECT k, count(*) n FROM SESSION(s PARTITION BY k, ts, INTERVAL 5 "
        "MINUTES) w GROUP BY k EMIT EARLY EVERY 1 ROW ON WATERMARK"
    )
    assert render(statement) == (
        "CREATE MATERIALIZED VIEW v WITH (\n"
        "  retain = '7 days'\n"
        ") AS\n"
        "SELECT\n"
        "  k,\n"
        "  COUNT(*) AS n\n"
        "FROM SESSION(s PARTITION BY k, ts, INTERVAL '5' MINUTES) AS w\n"
        "GROUP BY\n"
        "  k\n"
        "EMIT EARLY EVERY 1 ROW ON WATERMARK ACCUMULATING"
    )


STATEMENTS = [
    "CREATE STREAM s (a INT)",
    "CREATE OR REPLACE STREAM s (ts TIMESTAMP, WATERMARK FOR ts AT PERCENTILE 0.95)",
    "CREATE STREAM s (`watermark` INT, `date` DATE, `a b` INT, `x``y` INT, emit INT)",
    "CREATE TABLE t (a INT, b STRING, PRIMARY KEY (b, a)) WITH (versioned = true)",
    "CREATE TABLE t (a INT PRIMARY KEY, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS)",
    "CREATE VIEW IF NOT EXISTS v AS SELECT 1 AS x EMIT EVERY 7 ROWS",
    "CREATE OR REPLACE VIEW v AS WITH a AS (SELECT 1 AS x) SELECT x FROM a UNION ALL SELECT 2",
    "CREATE VIEW v AS SELECT a FROM t JOIN u FOR SYSTEM_TIME AS OF t.ts AS x ON t.k = x.k",
    "CREATE VIEW v AS SELECT a FROM t JOIN u x FOR SYSTEM_TIME AS OF t.ts ON t.k = x.k",
    "CREATE VIEW v AS SELECT k FROM t QUALIFY row_number() OVER (PARTITION BY k ORDER BY ts DESC) = 1",
    "CREATE VIEW v AS SELECT a FROM COUNT_WINDOW(s PARTITION BY k, 10, 5) EMIT ON WATERMARK ALLOWED LATENESS 0 SECONDS",
    "CREATE VIEW v AS SELECT any(a), every(b), mean(c), pow(d, 2), isnull(e), timestamp_seconds(f) FROM t",
    "CREATE VIEW v AS SELECT date_add(d, 1), date_trunc('week', ts), x -> 'a', ts + INTERVAL '1 hour 5 minutes' FROM t",
    "CREATE VIEW v AS SELECT 'it\\'s', 'back\\\\slash', 'line\\nbreak', \"dq\", X'1f', 1.5e3, 10L FROM t",
    "CREATE VIEW v AS SELECT `from`, t.`a b` FROM t",
    "CREATE FUNCTION f(a BIGINT) RETURNS STRING AS 'module:name'",
    "CREATE OR REPLACE FUNCTION `date`(`a b` ARRAY<STRUCT<x: INT>>, b INT) RETURNS MAP<STRING, INT> AS 'a.b:c'",
    "CREATE FUNCTION IF NOT EXISTS f(a TIMESTAMP, b BINARY) RETURNS BOOLEAN",
    "DROP FUNCTION IF EXISTS f",
    "SHOW FUNCTIONS",
    "CREATE SINK s FROM v INTO TOPIC t",
    "CREATE SINK IF NOT EXISTS `into` FROM `view` INTO TOPIC `topic` WITH (start = 'latest', retention = '1 day')",
    "CREATE SINK s FROM v WITH (connector = 'kafka', brokers = 'a:9092', mode = 'upsert')",
    "CREATE SINK s FROM v",
    "DROP SINK IF EXISTS s",
    "SHOW SINKS",
    "SHOW CREATE SINK s",
    "SHOW CREATE FUNCTION f",
    "DROP STREAM IF EXISTS s",
    "ALTER MATERIALIZED VIEW `select` REBUILD",
    "DROP VIEW v",
    "DROP SINK k",
    "SET kernel = 'spark'",
    "SHOW EPOCHS",
    "SHOW CREATE TABLE t",
    "DESCRIBE t",
    "DESCRIBE `table`",
    "EXPLAIN v",
    "EXPLAIN SELECT a FROM v",
    "EXPLAIN CREATE VIEW v AS SELECT a FROM s EMIT ON EPOCH RETRACTING",
    "INSERT INTO s VALUES (1, 'a'), (2, NULL)",
    "INSERT INTO s (a, `b c`) SELECT 1, 2",
    "DELETE FROM t",
    "DELETE FROM t WHERE a = 1 AND `b c` IN (SELECT x FROM v)",
    "DELETE FROM t x WHERE EXISTS (SELECT 1 FROM v WHERE v.k = x.k)",
    "SELECT a FROM v ORDER BY a LIMIT 3",
    "VALUES (1), (2)",
    "SUBSCRIBE v",
    "SUBSCRIBE v FROM EPOCH 3",
    "SUBSCRIBE `to` FROM EPOCH 3",
]


@pytest.mark.parametrize("text", STATEMENTS)
def test_round_trip(text: str) -> None:
    check(parse_statement(text))


def test_every_statement_has_a_round_trip() -> None:
    tried = {type(parse_statement(text)) for text in STATEMENTS}
    assert tried == set(Statement.__args__)


def test_values_stay_values() -> None:
    statement = parse_statement("INSERT INTO s VALUES (1, 'a'), (2, NULL)")
    assert isinstance(statement, Insert)
    assert render(statement) == "INSERT INTO s\nVALUES\n  (1, 'a'),\n  (2, NULL)"


names = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=8) | st.sampled_from(
    ["emit", "watermark", "event", "select", "date", "row", "primary", "PRIMARY KEY", "a b", "`", "'", "é", "to", "if"]
)
leaf_types = st.sampled_from(
    [pa.bool_(), pa.int8(), pa.int64(), pa.float32(), pa.string(), pa.binary(), pa.date32(), TIMESTAMP]
) | st.builds(lambda p, s: pa.decimal128(p, min(p, s)), st.integers(1, 38), st.integers(0, 38))
types = st.recursive(
    leaf_types,
    lambda inner: st.one_of(
        st.builds(pa.list_, inner),
        st.builds(pa.map_, leaf_types, inner),
        st.builds(
            lambda fields: pa.struct([(name, type_) for name, type_ in fields]),
            st.lists(st.tuples(names, inner), min_size=1, max_size=3, unique_by=lambda f: f[0].lower()),
        ),
    ),
    max_leaves=4,
)
columns = st.lists(st.builds(Column, names, types), min_size=1, max_size=4, unique_by=lambda c: c.name.lower())
option_texts = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=12)
options = st.lists(
    st.tuples(option_texts.filter(bool), option_texts), max_size=3, unique_by=lambda o: o[0].lower()
).map(tuple)


@settings(max_examples=150, deadline=None)
@given(columns, options, st.booleans(), st.booleans(), st.integers(0, 10**12))
def test_streams_round_trip(
    columns: list[Column], options: tuple[tuple[str, str], ...], replace: bool, exists: bool, slack: int
) -> None:
    schema = Schema((*columns, Column("ts__", TIMESTAMP), Column("sent__", TIMESTAMP)))
    check(
        CreateStream(
            "s",
            schema,
            Watermark("ts__", slack),
            ClockCorrection("ts__", "sent__", "ts__"),
            options,
            replace,
            exists,
        )
    )


@settings(max_examples=75, deadline=None)
@given(columns, options)
def test_tables_round_trip(columns: list[Column], options: tuple[tuple[str, str], ...]) -> None:
    key = tuple(column.name for column in columns)
    check(CreateTable("t", Schema(tuple(columns)), key, options))


@pytest.mark.parametrize(
    ("name", "written"),
    [("a", "a"), ("a1_B", "a1_B"), ("a b", "`a b`"), ("select", "`select`"), ("emit", "`emit`"), ("x`y", "`x``y`")],
)
def test_names_are_quoted_where_they_must_be(name: str, written: str) -> None:
    assert quote_name(name) == written
    if "`" not in name and " " not in name:
        check(Describe(name))


def test_strings_and_types() -> None:
    assert quote_string("it's \\") == "'it\\'s \\\\'"
    assert render_type(pa.struct([("a", pa.int32()), ("b c", pa.string())])) == "STRUCT<a: INT, `b c`: STRING>"


def test_qualify_stays_so_that_a_star_keeps_its_columns() -> None:
    text = render(
        parse_statement("CREATE VIEW v AS SELECT * FROM t QUALIFY row_number() OVER (PARTITION BY k ORDER BY ts) = 1")
    )
    assert "QUALIFY" in text
    assert text.count("SELECT") == 1
