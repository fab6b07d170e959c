"""Errors: code, message and the exact place in the user's text."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.model.errors import MillstreamError
from millstream.sql import parse_script

STREAM = "CREATE STREAM s (ts TIMESTAMP, n INT, {})"
VIEW = "CREATE VIEW v AS SELECT a FROM t {}"
FROM = "SELECT * FROM {}"

# text, code, what is underlined, a part of the message or the hint
CASES = [
    # syntax
    ("SELECT 1 FROM", "SYNTAX_ERROR", "", "expected the name of a relation"),
    ("SELECT a FROM t WHERE", "SYNTAX_ERROR", "", "incomplete expression"),
    ("SELECT (1", "SYNTAX_ERROR", "", "expected ) but found the end"),
    ("SELECT 1 2", "SYNTAX_ERROR", "2", "unexpected '2'"),
    ("SELECT 1; SELECT 2 FROM; SELECT 3", "SYNTAX_ERROR", ";", "expected the name of a relation"),
    ("SELECT 'abc", "SYNTAX_ERROR", "'", "close the quote"),
    ("SELECT `abc", "SYNTAX_ERROR", "`", "close the quote"),
    ("SELECT /* abc", "SYNTAX_ERROR", "/", "close the quote or the comment"),
    ("SELECT", "SYNTAX_ERROR", "SELECT", "nothing to select"),
    ("SELECT CAST(a AS foo) FROM t", "SYNTAX_ERROR", "foo", "expected a type"),
    ("SELECT map('a') FROM t", "SYNTAX_ERROR", "map", "wrong arguments"),
    ("SELECT lower('a', 'b', 'c')", "SYNTAX_ERROR", ")", "too many arguments"),
    ("WITH a AS (SELECT 1) SHOW TABLES", "SYNTAX_ERROR", "SHOW", "expected a query"),
    ("SELECT /*+ BROADCAST(t) */ 1", "HINT_NOT_ALLOWED", "/*+ BROADCAST(t) */", "remove the hint"),
    # statements
    ("SELEC 1", "UNKNOWN_STATEMENT", "SELEC", "did you mean 'select'?"),
    ("ALTER TABLE t ADD COLUMN a INT", "UNKNOWN_STATEMENT", "TABLE", "cannot alter 'TABLE'"),
    ("ALTER MATERIALIZED VIEW v RENAME TO w", "UNKNOWN_STATEMENT", "RENAME", "cannot alter a view with 'RENAME'"),
    ("ALTER VIEW v REBUILD now", "SYNTAX_ERROR", "now", "unexpected 'now'"),
    ("PRAGMA database_list", "UNKNOWN_STATEMENT", "PRAGMA", ""),
    ("ATTACH 'x.db'", "UNKNOWN_STATEMENT", "ATTACH", ""),
    ("COPY t TO 'x.csv'", "UNKNOWN_STATEMENT", "COPY", ""),
    ("SET x 1", "SYNTAX_ERROR", "1", "expected ="),
    ("SET kernel =", "SYNTAX_ERROR", "", "expected a value in quotes"),
    ("RESET x", "UNKNOWN_STATEMENT", "RESET", ""),
    ("ADD JAR '/x.jar'", "UNKNOWN_STATEMENT", "ADD JAR", ""),
    ("ELSE SELECT 1", "UNKNOWN_STATEMENT", "ELSE", ""),
    ("SHOW STREEMS", "UNKNOWN_STATEMENT", "STREEMS", "did you mean 'streams'?"),
    ("SHOW", "UNKNOWN_STATEMENT", "", "cannot show nothing"),
    ("CREATE WIDGET w", "UNKNOWN_STATEMENT", "WIDGET", "known: function, materialized view, sink, stream, table, view"),
    ("CREATE SINK k", "SYNTAX_ERROR", "", "expected FROM and a view"),
    ("CREATE SINK k FROM v INTO t", "SYNTAX_ERROR", "t", "expected TOPIC"),
    ("CREATE OR REPLACE SINK k FROM v INTO TOPIC t", "SYNTAX_NOT_ALLOWED", "SINK", "drop it, then create it"),
    ("CREATE SINK k FROM v INTO TOPIC t WITH (topic = 'u')", "DUPLICATE_OPTION", "topic", "given twice"),
    ("CREATE", "UNKNOWN_STATEMENT", "", "cannot create nothing"),
    ("DROP INDEX i", "UNKNOWN_STATEMENT", "INDEX", "cannot drop 'INDEX'"),
    ("EXPLAIN CREATE STREAM s (a INT)", "UNKNOWN_STATEMENT", "CREATE", "only views and queries have a plan"),
    ("SUBSCRIBE v FROM EPOCH x", "SYNTAX_ERROR", "x", "number of an epoch"),
    # names
    ("DESCRIBE a.b", "BAD_NAME", "a.b", "one part"),
    ("DROP VIEW `a/b`", "BAD_NAME", "`a/b`", "cannot name a view"),
    ("CREATE STREAM 's' (a INT)", "SYNTAX_ERROR", "'s'", "name of a stream"),
    # columns
    ("CREATE STREAM s (a INT, A STRING)", "DUPLICATE_COLUMN", "A", "defined twice"),
    ("CREATE STREAM s (a INTT)", "UNKNOWN_TYPE", "INTT", "did you mean 'int'?"),
    ("CREATE STREAM s (a ARRAY<INTT>)", "UNKNOWN_TYPE", "INTT", "did you mean 'int'?"),
    ("CREATE STREAM s (a STRUCT<b: INTT>)", "UNKNOWN_TYPE", "INTT", "did you mean 'int'?"),
    ("CREATE STREAM s (a DECIMAL(50, 2))", "UNKNOWN_TYPE", "DECIMAL(50, 2)", "precision up to 38"),
    ("CREATE STREAM s (a TIME)", "UNKNOWN_TYPE", "TIME", "not a type"),
    ("CREATE STREAM s (a)", "SYNTAX_ERROR", ")", "column 'a' has no type"),
    ("CREATE STREAM s (a INT NOT NULL)", "SYNTAX_ERROR", "NOT", "after the type of column 'a'"),
    ("CREATE STREAM s (a INT", "SYNTAX_ERROR", "", "unexpected nothing"),
    ("CREATE STREAM s ()", "SYNTAX_ERROR", ")", "name of a column"),
    ("CREATE STREAM s", "SYNTAX_ERROR", "", "expected ( and the columns"),
    # watermarks and corrections
    (STREAM.format("WATERMARK FOR nope AS nope"), "UNKNOWN_COLUMN", "nope", "there is no column 'nope'"),
    (STREAM.format("WATERMARK FOR n AS n"), "NOT_A_TIMESTAMP", "n", "event time is a TIMESTAMP"),
    (STREAM.format("WATERMARK FOR ts AS ts + INTERVAL 1 DAY"), "BAD_WATERMARK", "ts + INTERVAL 1 DAY", "minus"),
    (STREAM.format("WATERMARK FOR ts AS n - INTERVAL 1 DAY"), "BAD_WATERMARK", "n - INTERVAL 1 DAY", "minus"),
    (STREAM.format("WATERMARK FOR ts AS ts - INTERVAL -1 DAY"), "BAD_WATERMARK", "ts - INTERVAL -1 DAY", "negative"),
    (STREAM.format("WATERMARK FOR ts AS ts - INTERVAL 1 MONTH"), "BAD_INTERVAL", "ts - INTERVAL 1 MONTH", "MONTH"),
    (STREAM.format("WATERMARK FOR ts AT PERCENTILE 1.5"), "BAD_WATERMARK", "1.5", "above 0 and up to 1"),
    (STREAM.format("WATERMARK FOR ts AS ts, WATERMARK FOR ts AS ts"), "DUPLICATE_WATERMARK", "WATERMARK FOR", ""),
    (STREAM.format("EVENT TIME ts CORRECTED BY (ts)"), "BAD_CORRECTION", "(ts)", "two columns"),
    (STREAM.format("EVENT TIME ts CORRECTED BY (ts, n)"), "NOT_A_TIMESTAMP", "n", "'n' is not a TIMESTAMP"),
    # keys and options
    ("CREATE TABLE t (a INT)", "NO_PRIMARY_KEY", "t", "has no primary key"),
    ("CREATE TABLE t (a INT, PRIMARY KEY (b))", "UNKNOWN_COLUMN", "b", "no column 'b'"),
    ("CREATE TABLE t (a INT PRIMARY KEY, PRIMARY KEY (a))", "DUPLICATE_KEY", "PRIMARY KEY (a)", "one primary key"),
    ("CREATE TABLE t (a INT, PRIMARY KEY (a, A))", "DUPLICATE_KEY", "PRIMARY KEY (a, A)", "twice"),
    ("CREATE TABLE t (a INT PRIMARY KEY, WATERMARK FOR a AS a)", "NOT_A_TIMESTAMP", "a", ""),
    ("CREATE TABLE t (a TIMESTAMP PRIMARY KEY, EVENT TIME a CORRECTED BY (a, a))", "NOT_A_STREAM", "EVENT TIME", ""),
    ("DELETE t WHERE a = 1", "SYNTAX_ERROR", "t", ""),
    ("DELETE FROM t (a) WHERE a = 1", "SYNTAX_ERROR", "t", ""),
    ("DELETE FROM t AS x (b) WHERE b = 1", "SYNTAX_ERROR", "t", ""),
    ("DELETE FROM t WHERE", "SYNTAX_ERROR", "", ""),
    ("DELETE FROM a.t", "BAD_NAME", "a.t", ""),
    ("CREATE STREAM s (a INT PRIMARY KEY)", "NOT_A_TABLE", "PRIMARY KEY", "CREATE TABLE"),
    ("CREATE STREAM s (a INT) WITH (source = log)", "SYNTAX_ERROR", "log", "write 'log' in quotes"),
    ("CREATE STREAM s (a INT) WITH (a = 1, A = 2)", "DUPLICATE_OPTION", "A", "given twice"),
    ("CREATE STREAM s (a INT) WITH (a 1)", "SYNTAX_ERROR", "1", "expected ="),
    # views and inserts
    ("CREATE VIEW v AS", "SYNTAX_ERROR", "", "expected a query"),
    ("CREATE VIEW v SELECT 1", "SYNTAX_ERROR", "SELECT", "expected AS and a query"),
    ("SELECT a FROM t EMIT ON EPOCH", "BAD_EMIT", "EMIT", "belongs to CREATE MATERIALIZED VIEW"),
    ("CREATE VIEW v AS SELECT * FROM (SELECT 1 EMIT ON EPOCH)", "SYNTAX_ERROR", "EMIT", "EMIT belongs at the end"),
    ("INSERT bids VALUES (1)", "SYNTAX_ERROR", "bids", "expected INTO"),
    ("INSERT INTO bids VALUES (1), (1, 2)", "BAD_VALUES", "VALUES (1), (1, 2)", "differ in length"),
    ("INSERT INTO bids (a, b) VALUES (1)", "BAD_VALUES", "VALUES (1)", "2 columns are named"),
    ("INSERT INTO bids (a, A) VALUES (1, 1)", "DUPLICATE_COLUMN", "A", "named twice"),
    # EMIT
    (VIEW.format("EMIT LATE EVERY 1 ROW"), "BAD_EMIT", "LATE", "LATE needs ON WATERMARK"),
    (VIEW.format("EMIT EVERY 2 ROWS LATE EVERY 1 ROW"), "BAD_EMIT", "LATE", "LATE needs ON WATERMARK"),
    (VIEW.format("EMIT EVERY 1 ROW ON WATERMARK"), "BAD_EMIT", "ON", "EMIT EARLY <rate> ON WATERMARK"),
    (VIEW.format("EMIT EARLY EVERY 1 ROW"), "BAD_EMIT", "", "EARLY needs ON WATERMARK"),
    (VIEW.format("EMIT EARLY ON WATERMARK"), "BAD_EMIT", "ON", "EARLY needs a rate"),
    (VIEW.format("EMIT SOMETIMES"), "BAD_EMIT", "SOMETIMES", "EMIT needs a rate"),
    (VIEW.format("EMIT EVERY 0 ROWS"), "BAD_EMIT", "0", "at least 1"),
    (VIEW.format("EMIT EVERY -1 ROWS"), "BAD_EMIT", "-1", "at least 1"),
    (VIEW.format("EMIT EVERY 1.5 ROWS"), "BAD_EMIT", "1.5", "whole number"),
    (VIEW.format("EMIT EVERY 0 SECONDS"), "BAD_EMIT", "0 SECONDS", "longer than zero"),
    (VIEW.format("EMIT EVERY INTERVAL -5 SECONDS"), "BAD_EMIT", "INTERVAL -5 SECONDS", "longer than zero"),
    (VIEW.format("EMIT EVERY 1 MONTH"), "BAD_INTERVAL", "1 MONTH", "no fixed length"),
    (VIEW.format("EMIT EVERY 5"), "BAD_INTERVAL", "5", "not a duration"),
    (VIEW.format("EMIT EVERY x SECONDS"), "BAD_INTERVAL", "x", "expected an interval"),
    (VIEW.format("EMIT ON WATERMARK ALLOWED LATENESS INTERVAL -1 DAY"), "BAD_EMIT", "INTERVAL -1 DAY", "negative"),
    (VIEW.format("EMIT ON WATERMARK ALLOWED LATENESS 1 DAY RETRACTING"), "BAD_EMIT", "RETRACTING", "comes before"),
    (VIEW.format("EMIT ON WATERMARK LATTE EVERY 1 ROW"), "SYNTAX_ERROR", "LATTE", "unexpected 'LATTE'"),
    # windows
    (FROM.format("TUMBLE(s, ts, INTERVAL 0 SECONDS)"), "BAD_WINDOW", "INTERVAL 0 SECONDS", "longer than zero"),
    (FROM.format("TUMBLE(s, ts, INTERVAL 1 MONTH)"), "BAD_INTERVAL", "INTERVAL 1 MONTH", "no fixed length"),
    (FROM.format("TUMBLE(s, ts, INTERVAL x SECONDS)"), "BAD_INTERVAL", "INTERVAL x SECONDS", "not a constant"),
    (FROM.format("TUMBLE(s, ts, 5)"), "BAD_WINDOW", "5", "needs an interval"),
    (FROM.format("TUMBLE(s, ts, size)"), "BAD_WINDOW", "size", "needs an interval"),
    (FROM.format("TUMBLE(s, 5, INTERVAL 1 DAY)"), "BAD_WINDOW", "5", "name of a column"),
    (FROM.format("TUMBLE(s, ts)"), "BAD_WINDOW", "TUMBLE(s, ts)", "too few arguments"),
    (FROM.format("TUMBLE()"), "BAD_WINDOW", ")", "first argument of TUMBLE"),
    (FROM.format("TUMBLE(a.b, ts, INTERVAL 1 DAY)"), "BAD_WINDOW", ".", "first argument of TUMBLE"),
    (FROM.format("TUMBLE((SELECT 1), ts, INTERVAL 1 DAY)"), "BAD_WINDOW", "(", "give a subquery a name"),
    (
        FROM.format("TUMBLE(s PARTITION BY k, ts, INTERVAL 1 DAY)"),
        "BAD_WINDOW",
        "TUMBLE(s PARTITION BY k, ts, INTERVAL 1 DAY)",
        "no PARTITION BY",
    ),
    (FROM.format("TUMBLE(s, ts, INTERVAL 1 DAY"), "SYNTAX_ERROR", "", "expected )"),
    (FROM.format("HOP(s, ts, INTERVAL 1 DAY)"), "BAD_WINDOW", "HOP(s, ts, INTERVAL 1 DAY)", "too few arguments"),
    (FROM.format("HOP(s, ts, INTERVAL -1 DAY, INTERVAL 1 DAY)"), "BAD_WINDOW", "INTERVAL -1 DAY", "slide of HOP"),
    (
        FROM.format("SESSION(s, k, ts, INTERVAL 1 DAY)"),
        "BAD_WINDOW",
        "SESSION(s, k, ts, INTERVAL 1 DAY)",
        "too many arguments",
    ),
    (
        FROM.format("SESSION(s PARTITION BY ts, INTERVAL 1 DAY)"),
        "BAD_WINDOW",
        "SESSION(s PARTITION BY ts, INTERVAL 1 DAY)",
        "too few arguments",
    ),
    (FROM.format("SLIDE(s PARTITION BY k, ts, 'x')"), "BAD_WINDOW", "'x'", "needs an interval"),
    (FROM.format("COUNT_WINDOW(s PARTITION BY k, 0)"), "BAD_WINDOW", "0", "at least 1"),
    (FROM.format("COUNT_WINDOW(s PARTITION BY k)"), "BAD_WINDOW", "COUNT_WINDOW(s PARTITION BY k)", "too few"),
    (
        FROM.format("COUNT_WINDOW(s PARTITION BY k, 1, 2, 3)"),
        "BAD_WINDOW",
        "COUNT_WINDOW(s PARTITION BY k, 1, 2, 3)",
        "too many",
    ),
]


@pytest.mark.parametrize(("text", "code", "underlined", "words"), CASES)
def test_errors_say_what_and_where(text: str, code: str, underlined: str, words: str) -> None:
    script = f"SHOW STREAMS;\n  {text}"
    with pytest.raises(MillstreamError) as caught:
        parse_script(script, "pipeline.sql")
    error = caught.value
    assert error.code == code, error
    assert error.position is not None
    assert script[error.position.start : error.position.end] == underlined or (
        underlined == ";" and script[error.position.start] == ";"
    ), error
    assert error.position.line == 2
    assert error.position.source == "pipeline.sql"
    assert words in f"{error.message} {error.hint}", error
    assert "\n" not in error.message
    assert "\033" not in str(error)
    assert "sqlglot" not in str(error)


def test_an_error_is_shown_in_the_text() -> None:
    with pytest.raises(MillstreamError) as caught:
        parse_script("SHOW VIEWS;\nCREATE STREAM s (\n  a INT,\n  b STRNG)", "pipeline.sql")
    assert str(caught.value) == (
        "error[UNKNOWN_TYPE]: STRNG is not a type of StreamSQL\n"
        "  pipeline.sql:4:5\n"
        "  4 |   b STRNG)\n"
        "    |     ^^^^^\n"
        "hint: did you mean 'string'?"
    )


def test_deep_nesting_is_an_error_and_no_crash() -> None:
    with pytest.raises(MillstreamError, match="nested too deeply"):
        parse_script("SELECT " + "(" * 3000 + "1" + ")" * 3000)


TOKENS = """
    SELECT FROM WHERE GROUP BY ORDER CREATE STREAM TABLE VIEW MATERIALIZED EMIT ON EPOCH WATERMARK EARLY LATE EVERY
    ROWS INTERVAL SECONDS ALLOWED LATENESS PRIMARY KEY WITH AS ( ) , ; . = - + * 1 0 'x' `q` a b ts INT TIMESTAMP FOR
    TUMBLE HOP SESSION PARTITION DROP SHOW EXPLAIN INSERT INTO VALUES SUBSCRIBE CASE WHEN END LATERAL EXPLODE map(
    cast( OVER { } [ ] : :: $ ? @ -> => JOIN UNION PIVOT NOT NULL IF EXISTS count( named_struct( date_part(
"""


@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from(TOKENS.split()), max_size=14).map(" ".join))
def test_no_text_raises_anything_but_our_error(text: str) -> None:
    with suppress(MillstreamError):
        parse_script(text)


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=30))
def test_no_characters_raise_anything_but_our_error(text: str) -> None:
    with suppress(MillstreamError):
        parse_script(text)
