"""Statements: what each text says."""

from __future__ import annotations

import pyarrow as pa
import pytest
from sqlglot import exp

from millstream.model.errors import MillstreamError
from millstream.model.schema import TIMESTAMP
from millstream.sql import parse_script, parse_statement
from millstream.sql.statements import (
    DEFAULT_EMIT,
    ClockCorrection,
    CreateStream,
    CreateTable,
    CreateView,
    Describe,
    Drop,
    Emit,
    EveryInterval,
    EveryRows,
    Explain,
    Insert,
    Rebuild,
    Select,
    Show,
    ShowCreate,
    Subscribe,
    Watermark,
)

SECOND = 1_000_000


def test_a_stream_has_columns_a_watermark_and_options() -> None:
    statement = parse_statement("""
        CREATE STREAM bids (
          auction BIGINT, price DECIMAL(12, 2), channel STRING, ts TIMESTAMP,
          WATERMARK FOR ts AS ts - INTERVAL 4 SECONDS            -- slack
        ) WITH (source = 'log', partitions = 4, rewind = FALSE, 'option.rowsPerSecond' = '10', option.host = 'h')
    """)
    assert isinstance(statement, CreateStream)
    assert [(c.name, c.type) for c in statement.schema.columns] == [
        ("auction", pa.int64()),
        ("price", pa.decimal128(12, 2)),
        ("channel", pa.string()),
        ("ts", TIMESTAMP),
    ]
    assert statement.watermark == Watermark("ts", 4 * SECOND)
    assert statement.options == (
        ("source", "log"),
        ("partitions", "4"),
        ("rewind", "false"),
        ("option.rowsPerSecond", "10"),
        ("option.host", "h"),
    )


@pytest.mark.parametrize(
    ("clause", "watermark"),
    [
        ("WATERMARK FOR ts AS ts", Watermark("ts", 0)),
        ("WATERMARK FOR ts AS ts - INTERVAL '4' SECONDS", Watermark("ts", 4 * SECOND)),
        ("WATERMARK FOR ts AS ts - INTERVAL '4 seconds'", Watermark("ts", 4 * SECOND)),
        ("WATERMARK FOR ts AS ts - INTERVAL '1 hour 30 minutes'", Watermark("ts", 5400 * SECOND)),
        ("WATERMARK FOR ts AS ts - INTERVAL 1 HOUR 30 MINUTES", Watermark("ts", 5400 * SECOND)),
        ("WATERMARK FOR ts AS ts - INTERVAL 250 MILLISECONDS", Watermark("ts", 250_000)),
        ("WATERMARK FOR ts AT PERCENTILE 0.99", Watermark("ts", percentile=0.99)),
        ("watermark for `ts` as TS - interval 1 day", Watermark("ts", 86_400 * SECOND)),
    ],
)
def test_watermarks(clause: str, watermark: Watermark) -> None:
    statement = parse_statement(f"CREATE STREAM s (ts TIMESTAMP, {clause})")
    assert isinstance(statement, CreateStream)
    assert statement.watermark == watermark


def test_event_time_is_corrected_by_two_clocks() -> None:
    statement = parse_statement(
        "CREATE STREAM s (EVENT TIME ts CORRECTED BY (sent, got), ts TIMESTAMP, sent TIMESTAMP, got TIMESTAMP)"
    )
    assert isinstance(statement, CreateStream)
    assert statement.correction == ClockCorrection("ts", "sent", "got")


@pytest.mark.parametrize(
    ("written", "arrow"),
    [
        ("BOOLEAN", pa.bool_()),
        ("TINYINT", pa.int8()),
        ("BYTE", pa.int8()),
        ("SMALLINT", pa.int16()),
        ("SHORT", pa.int16()),
        ("INT", pa.int32()),
        ("INTEGER", pa.int32()),
        ("BIGINT", pa.int64()),
        ("LONG", pa.int64()),
        ("FLOAT", pa.float32()),
        ("DOUBLE", pa.float64()),
        ("DECIMAL", pa.decimal128(10, 0)),
        ("DECIMAL(5)", pa.decimal128(5, 0)),
        ("NUMERIC(5, 2)", pa.decimal128(5, 2)),
        ("STRING", pa.string()),
        ("VARCHAR(10)", pa.string()),
        ("CHAR(3)", pa.string()),
        ("BINARY", pa.binary()),
        ("DATE", pa.date32()),
        ("TIMESTAMP", TIMESTAMP),
        ("TIMESTAMP_LTZ", TIMESTAMP),
        ("TIMESTAMP_NTZ", TIMESTAMP),
        ("ARRAY<INT>", pa.list_(pa.int32())),
        ("MAP<STRING, ARRAY<DOUBLE>>", pa.map_(pa.string(), pa.list_(pa.float64()))),
        ("STRUCT<a: INT, date: DATE>", pa.struct([("a", pa.int32()), ("date", pa.date32())])),
        ("STRUCT<`a b`: STRUCT<c STRING>>", pa.struct([("a b", pa.struct([("c", pa.string())]))])),
    ],
)
def test_column_types(written: str, arrow: pa.DataType) -> None:
    statement = parse_statement(f"CREATE STREAM s (c {written})")
    assert isinstance(statement, CreateStream)
    assert statement.schema.columns[0].type == arrow


@pytest.mark.parametrize(
    ("columns", "key"),
    [
        ("id BIGINT PRIMARY KEY, name STRING", ("id",)),
        ("a INT, b INT, PRIMARY KEY (b, a)", ("b", "a")),
        ("PRIMARY KEY (A), a INT", ("a",)),
    ],
)
def test_a_table_has_a_primary_key(columns: str, key: tuple[str, ...]) -> None:
    statement = parse_statement(f"CREATE OR REPLACE TABLE IF NOT EXISTS t ({columns}) WITH (versioned = 'true')")
    assert isinstance(statement, CreateTable)
    assert statement.primary_key == key
    assert statement.or_replace
    assert statement.if_not_exists
    assert statement.options == (("versioned", "true"),)


@pytest.mark.parametrize(
    "text",
    [
        "CREATE VIEW v WITH (retain = '7 days') AS SELECT a FROM t EMIT ON WATERMARK",
        "CREATE MATERIALIZED VIEW v AS SELECT a FROM t EMIT ON WATERMARK WITH (retain = '7 days')",
        "CREATE VIEW v AS SELECT a FROM t WITH (retain = '7 days') EMIT ON WATERMARK",
        "CREATE VIEW v AS (SELECT a FROM t) EMIT ON WATERMARK WITH (retain = '7 days')",
    ],
)
def test_options_of_a_view_stand_before_or_after_the_query(text: str) -> None:
    statement = parse_statement(text)
    assert isinstance(statement, CreateView)
    assert statement.options == (("retain", "7 days"),)
    assert statement.emit == Emit(on_watermark=True)
    assert statement.query.sql() == "SELECT a FROM t"


def test_a_view_publishes_every_epoch_unless_it_says_otherwise() -> None:
    statement = parse_statement("CREATE VIEW v AS WITH a AS (SELECT 1 AS x) SELECT x FROM a UNION ALL SELECT 2")
    assert isinstance(statement, CreateView)
    assert statement.emit == DEFAULT_EMIT
    assert isinstance(statement.query, exp.Union)


def test_the_view_of_the_design() -> None:
    statement = parse_statement("""
        CREATE MATERIALIZED VIEW hot_items AS
        SELECT window_start, window_end, auction, count(*) AS n, max(price) AS top
        FROM HOP(bids, ts, INTERVAL 2 SECONDS, INTERVAL 10 SECONDS)        -- slide, size
        WHERE price > 100
        GROUP BY window_start, window_end, auction
        EMIT EARLY EVERY 5 SECONDS ON WATERMARK LATE EVERY 1 ROW RETRACTING ALLOWED LATENESS INTERVAL 1 HOUR;
    """)
    assert isinstance(statement, CreateView)
    assert statement.emit == Emit(
        on_watermark=True,
        early=EveryInterval(5 * SECOND),
        late=EveryRows(1),
        accumulation="retracting",
        lateness=3600 * SECOND,
    )


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        ("ALTER MATERIALIZED VIEW v REBUILD", Rebuild("v")),
        ("alter view v rebuild", Rebuild("v")),
        ("DROP STREAM s", Drop("stream", "s")),
        ("DROP TABLE IF EXISTS t", Drop("table", "t", True)),
        ("DROP VIEW v", Drop("view", "v")),
        ("drop materialized view if exists v", Drop("view", "v", True)),
        ("DROP SINK k", Drop("sink", "k")),
        ("SHOW STREAMS", Show("streams")),
        ("show tables", Show("tables")),
        ("SHOW VIEWS", Show("views")),
        ("SHOW SINKS", Show("sinks")),
        ("SHOW EPOCHS", Show("epochs")),
        ("SHOW CREATE v", ShowCreate("v")),
        ("SHOW CREATE STREAM s", ShowCreate("s")),
        ("SHOW CREATE MATERIALIZED VIEW v", ShowCreate("v")),
        ("SHOW CREATE stream", ShowCreate("stream")),
        ("DESCRIBE v", Describe("v")),
        ("DESC TABLE t", Describe("t")),
        ("DESCRIBE bids__late", Describe("bids__late")),
        ("EXPLAIN v", Explain("v")),
        ("SUBSCRIBE v", Subscribe("v")),
        ("SUBSCRIBE TO v FROM EPOCH 12", Subscribe("v", 12)),
        ("SUBSCRIBE to", Subscribe("to")),
    ],
)
def test_short_statements(text: str, statement: object) -> None:
    assert parse_statement(text) == statement


def test_explain_takes_queries_and_views() -> None:
    query = parse_statement("EXPLAIN SELECT a FROM v")
    assert isinstance(query, Explain)
    assert isinstance(query.target, Select)
    view = parse_statement("EXPLAIN CREATE MATERIALIZED VIEW v AS SELECT a FROM s EMIT EVERY 2 ROWS")
    assert isinstance(view, Explain)
    assert isinstance(view.target, CreateView)
    assert view.target.emit == Emit(repeatedly=EveryRows(2))


def test_insert_takes_values_and_queries() -> None:
    values = parse_statement("INSERT INTO bids (auction, price) VALUES (1, 2.5), (2, NULL)")
    assert isinstance(values, Insert)
    assert values.target == "bids"
    assert values.columns == ("auction", "price")
    assert values.query.sql(dialect="duckdb") == "SELECT * FROM (VALUES (1, 2.5), (2, NULL)) AS _values"
    select = parse_statement("INSERT INTO bids SELECT a FROM t")
    assert isinstance(select, Insert)
    assert select.columns == ()
    wrapped = parse_statement("INSERT INTO bids (SELECT a FROM t)")
    assert isinstance(wrapped, Insert)
    assert wrapped.query.sql() == "SELECT a FROM t"


@pytest.mark.parametrize(
    "word", ["emit", "stream", "epoch", "watermark", "early", "late", "event", "allowed", "source"]
)
def test_words_of_streamsql_are_still_names(word: str) -> None:
    (stream, select, aliased) = parse_script(
        f"CREATE STREAM s ({word} STRING, ts TIMESTAMP); SELECT {word}, t.{word} AS {word} FROM t WHERE {word} > 1;"
        f"SELECT 1 FROM a JOIN b AS {word} ON {word}.x = a.x"
    )
    assert isinstance(stream, CreateStream)
    assert stream.schema.names()[0] == word
    assert isinstance(select, Select)
    assert select.query.named_selects == [word, word]
    assert isinstance(aliased, Select)
    assert word in {table.alias for table in aliased.query.find_all(exp.Table)}


@pytest.mark.parametrize("text", ["", "  ", ";", ";;\n;", "-- nothing\n", "/* nothing */", "/* a */; -- b"])
def test_a_script_may_be_empty(text: str) -> None:
    assert parse_script(text) == ()


def test_a_script_has_many_statements_and_comments() -> None:
    script = """
    -- first; not a statement
    CREATE STREAM s (a INT /* the a */, b STRING -- the b; really
    );
    /* SELECT 1; */ SELECT '--', ';', '/*' FROM s; -- done
    SHOW STREAMS
    """
    assert [type(statement) for statement in parse_script(script)] == [CreateStream, Select, Show]


def test_parse_statement_takes_exactly_one() -> None:
    for text in ("", "SHOW STREAMS; SHOW VIEWS"):
        with pytest.raises(MillstreamError, match="expected one statement"):
            parse_statement(text)


def test_casts_fail_and_timestamps_are_instants() -> None:
    statement = parse_statement(
        "SELECT CAST(a AS INT), TRY_CAST(a AS INT), TIMESTAMP '2024-01-01', to_timestamp(a) FROM t"
    )
    assert isinstance(statement, Select)
    assert statement.query.sql(dialect="duckdb") == (
        "SELECT CAST(a AS INT), TRY_CAST(a AS INT), CAST('2024-01-01' AS TIMESTAMP), CAST(a AS TIMESTAMP) FROM t"
    )


def test_first_value_without_over_is_the_aggregate() -> None:
    statement = parse_statement(
        "SELECT first_value(a), last_value(a) IGNORE NULLS, first_value(a) OVER (ORDER BY b) FROM t"
    )
    assert isinstance(statement, Select)
    assert statement.query.sql(dialect="spark") == (
        "SELECT FIRST(a), LAST(a) IGNORE NULLS, FIRST_VALUE(a) OVER (ORDER BY b) FROM t"
    )
