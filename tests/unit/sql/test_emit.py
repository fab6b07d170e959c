"""The EMIT clause: every form, after every clause, and back again."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.sql import parse_statement
from millstream.sql.render import render_emit
from millstream.sql.statements import CreateView, Emit, EveryEpoch, EveryInterval, EveryRows, Rate

SECOND = 1_000_000


def parse_emit(clause: str, query: str = "SELECT a FROM t") -> Emit:
    statement = parse_statement(f"CREATE VIEW v AS {query} {clause}")
    assert isinstance(statement, CreateView)
    assert "EMIT" not in statement.query.sql(dialect="streamsql").upper()
    return statement.emit


@pytest.mark.parametrize(
    ("clause", "emit"),
    [
        ("EMIT ON EPOCH", Emit(repeatedly=EveryEpoch())),
        ("emit every 10 rows", Emit(repeatedly=EveryRows(10))),
        ("EMIT EVERY 1 ROW", Emit(repeatedly=EveryRows(1))),
        ("EMIT EVERY 5 SECONDS", Emit(repeatedly=EveryInterval(5 * SECOND))),
        ("EMIT EVERY INTERVAL 5 SECONDS", Emit(repeatedly=EveryInterval(5 * SECOND))),
        ("EMIT EVERY INTERVAL '5' SECONDS", Emit(repeatedly=EveryInterval(5 * SECOND))),
        ("EMIT EVERY INTERVAL '5 seconds'", Emit(repeatedly=EveryInterval(5 * SECOND))),
        ("EMIT EVERY '5 seconds'", Emit(repeatedly=EveryInterval(5 * SECOND))),
        ("EMIT EVERY 1 MINUTE 30 SECONDS", Emit(repeatedly=EveryInterval(90 * SECOND))),
        ("EMIT ON WATERMARK", Emit(on_watermark=True)),
        ("EMIT ON WATERMARK LATE ON EPOCH", Emit(on_watermark=True, late=EveryEpoch())),
        ("EMIT EARLY ON EPOCH ON WATERMARK", Emit(on_watermark=True, early=EveryEpoch())),
        ("EMIT EARLY EVERY 2 ROWS ON WATERMARK", Emit(on_watermark=True, early=EveryRows(2))),
        (
            "EMIT EARLY EVERY 5 SECONDS ON WATERMARK LATE EVERY 1 ROW DISCARDING ALLOWED LATENESS 1 HOUR",
            Emit(None, True, EveryInterval(5 * SECOND), EveryRows(1), "discarding", 3600 * SECOND),
        ),
        ("EMIT ON EPOCH RETRACTING", Emit(repeatedly=EveryEpoch(), accumulation="retracting")),
        ("EMIT ON EPOCH ACCUMULATING", Emit(repeatedly=EveryEpoch())),
        ("EMIT ON WATERMARK ALLOWED LATENESS INTERVAL 0 SECONDS", Emit(on_watermark=True, lateness=0)),
    ],
)
def test_forms(clause: str, emit: Emit) -> None:
    assert parse_emit(clause) == emit


QUERIES = [
    "SELECT a",
    "SELECT a FROM t",
    "SELECT a FROM t x",
    "SELECT a FROM t AS emit",
    "SELECT emit FROM t",
    "SELECT a FROM (SELECT 1 AS a)",
    "SELECT a FROM t, u",
    "SELECT a FROM t JOIN u",
    "SELECT a FROM t JOIN u USING (x)",
    "SELECT a FROM t JOIN u ON t.a = u.a",
    "SELECT a FROM t JOIN emit ON t.a = emit.a",
    "SELECT a FROM t JOIN u FOR SYSTEM_TIME AS OF t.ts ON t.a = u.a",
    "SELECT a FROM t JOIN u FOR SYSTEM_TIME AS OF t.ts",
    "SELECT a FROM t LATERAL VIEW explode(x) q",
    "SELECT a FROM t LATERAL VIEW explode(x) q AS y",
    "SELECT a FROM TUMBLE(t, ts, INTERVAL 5 SECONDS)",
    "SELECT a FROM t WHERE a",
    "SELECT a FROM t WHERE a IS NULL",
    "SELECT a FROM t WHERE ts > now - INTERVAL 1 HOUR",
    "SELECT a FROM t WHERE ts > now - INTERVAL '1 hour'",
    "SELECT a FROM t WHERE CASE WHEN a THEN b END",
    "SELECT a FROM t GROUP BY a",
    "SELECT a FROM t GROUP BY ALL",
    "SELECT a FROM t GROUP BY a WITH ROLLUP",
    "SELECT a FROM t GROUP BY ROLLUP (a)",
    "SELECT a FROM t GROUP BY a HAVING count(*) > 1",
    "SELECT a FROM t QUALIFY row_number() OVER (PARTITION BY a ORDER BY b) = 1",
    "SELECT a FROM t WINDOW w AS (PARTITION BY a)",
    "SELECT a FROM t ORDER BY a DESC NULLS LAST",
    "SELECT a FROM t LIMIT 5",
    "SELECT a FROM t UNION ALL SELECT b FROM u",
    "(SELECT a FROM t)",
    "WITH c AS (SELECT 1 AS a) SELECT a FROM c",
    "SELECT a FROM t PIVOT (sum(a) FOR b IN (1, 2))",
]


@pytest.mark.parametrize("query", QUERIES)
def test_emit_follows_any_clause(query: str) -> None:
    expected = parse_statement(f"CREATE VIEW v AS {query}")
    assert isinstance(expected, CreateView)
    for clause, emit in (
        ("EMIT ON EPOCH", Emit(repeatedly=EveryEpoch())),
        ("EMIT ON WATERMARK DISCARDING", Emit(on_watermark=True, accumulation="discarding")),
        ("EMIT EVERY 5 SECONDS", Emit(repeatedly=EveryInterval(5 * SECOND))),
        ("EMIT EARLY EVERY 1 ROW ON WATERMARK", Emit(on_watermark=True, early=EveryRows(1))),
    ):
        statement = parse_statement(f"CREATE VIEW v AS {query} {clause} WITH (retain = '1 day')")
        assert isinstance(statement, CreateView)
        assert statement.emit == emit
        assert statement.query.sql(dialect="streamsql") == expected.query.sql(dialect="streamsql")
        assert statement.options == (("retain", "1 day"),)


rates: st.SearchStrategy[Rate] = st.one_of(
    st.builds(EveryRows, st.integers(1, 10**9)),
    st.builds(EveryInterval, st.integers(1, 10**15)),
    st.just(EveryEpoch()),
)
endings = st.fixed_dictionaries(
    {
        "accumulation": st.sampled_from(["accumulating", "discarding", "retracting"]),
        "lateness": st.none() | st.integers(0, 10**15),
    }
)
emits = st.one_of(
    st.builds(lambda rate, ending: Emit(repeatedly=rate, **ending), rates, endings),
    st.builds(
        lambda early, late, ending: Emit(on_watermark=True, early=early, late=late, **ending),
        st.none() | rates,
        st.none() | rates,
        endings,
    ),
)


@settings(max_examples=150, deadline=None)
@given(emits)
def test_round_trip(emit: Emit) -> None:
    assert parse_emit(render_emit(emit)) == emit
