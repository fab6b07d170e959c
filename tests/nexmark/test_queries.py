"""The text of every query means what the oracle says: both run as batches in DuckDB, without an engine.

So a query is known to be right before the planner takes it, and a failure of the other tests lies
with the engine. Window functions, which DuckDB lacks, are spelled out here.
"""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest
import sqlglot
from sqlglot import exp

from millstream.sql import parse_script, read_window_call
from millstream.sql.statements import CreateStream, CreateView
from millstream.sql.windows import WindowCall

from .compare import difference
from .feed import Feed
from .oracle import answer
from .queries import EXAMPLES, QUERIES

FEED = Feed(seed=5, events=20_000, batches_wanted=6)


@pytest.fixture(scope="module")
def rows() -> dict[str, pa.Table]:
    return FEED.rows(FEED.batches)


def test_both_sets_of_streams_have_the_same_columns() -> None:
    log, files = (parse_script((EXAMPLES / name).read_text()) for name in ("streams.sql", "streams_files.sql"))
    for one, other in zip(log, files, strict=True):
        assert isinstance(one, CreateStream)
        assert isinstance(other, CreateStream)
        assert (one.name, one.schema, one.watermark) == (other.name, other.schema, other.watermark)


@pytest.mark.parametrize("query", QUERIES)
def test_the_text_means_what_the_oracle_says(query: str, rows: dict[str, pa.Table]) -> None:
    # Processing time is a column of the rows here.
    text = (EXAMPLES / f"{query}.sql").read_text().replace("PROCTIME()", "arrived_at")
    (statement,) = parse_script(text)
    assert isinstance(statement, CreateView)
    assert statement.name == query
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for name, table in rows.items():
            connection.register(name, table)
        actual = connection.sql(_spelled_out(statement.query)).to_arrow_table()
    assert difference(actual, answer(query, rows)) is None


def _spelled_out(query: exp.Query) -> str:
    for table in list(query.find_all(exp.Table)):
        call = read_window_call(table)
        if call is not None:
            relation = sqlglot.parse_one(_rows_with_windows(call), read="duckdb", into=exp.Select)
            table.replace(relation.subquery(call.alias or "windowed"))
    return query.sql("duckdb")


def _rows_with_windows(call: WindowCall) -> str:
    """The rows of a stream, once for every window they are in."""
    if call.kind == "session":
        mine = f"PARTITION BY {', '.join(call.partition_by)} ORDER BY {call.time_column}"
        gap = f"epoch_us({call.time_column}) - epoch_us(lag({call.time_column}) OVER ({mine}))"
        return f"""
            SELECT *, min({call.time_column}) OVER session AS window_start,
              max({call.time_column}) OVER session + INTERVAL '{call.size} microseconds' AS window_end
            FROM (
              SELECT *, sum(begins) OVER ({mine}) AS number
              FROM (
                SELECT *, if({gap} < {call.size}, 0, 1) AS begins FROM {call.source}
              )
            )
            WINDOW session AS (PARTITION BY {", ".join(call.partition_by)}, number)
        """
    newest = f"epoch_us({call.time_column}) // {call.slide} * {call.slide}"
    return f"""
        SELECT *, make_timestamp(starts) AS window_start, make_timestamp(starts + {call.size}) AS window_end
        FROM (
          SELECT *, unnest(generate_series({newest} - {call.size} + {call.slide}, {newest}, {call.slide})) AS starts
          FROM {call.source}
        )
    """
