"""Relations as a whole: triggers, options, misuse that is refused at the call, and whatever steps they are built of."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import millstream as ms
from millstream.builder.relations import Relation
from tests.answers import untyped
from tests.unit.builder.bids import bids, counted, price, tumbled, users
from tests.unit.builder.equality import check_round_trip, refused, same
from tests.unit.builder.test_expressions import expressions, texts

SAME: list[tuple[Relation, str]] = [
    (
        tumbled.agg(n=ms.count()).emit(
            ms.on_watermark(early=ms.every("5 seconds"), late=ms.every(rows=1)),
            accumulate="retracting",
            lateness="1 hour",
        ),
        "SELECT window_start, window_end, count(*) AS n FROM TUMBLE(bids, ts, INTERVAL 10 SECONDS) "
        "GROUP BY window_start, window_end "
        "EMIT EARLY EVERY 5 SECONDS ON WATERMARK LATE EVERY 1 ROW RETRACTING ALLOWED LATENESS INTERVAL 1 HOUR",
    ),
    (counted.emit(ms.on_epoch()), "SELECT auction, count(*) AS n FROM bids GROUP BY auction EMIT ON EPOCH"),
    (
        counted.emit(ms.every(rows=3), accumulate="discarding").filter(ms.col("n") > 1),
        "SELECT auction, count(*) AS n FROM bids GROUP BY auction HAVING count(*) > 1 EMIT EVERY 3 ROWS DISCARDING",
    ),
    (
        counted.emit(ms.every(timedelta(milliseconds=1))),
        "SELECT auction, count(*) AS n FROM bids GROUP BY auction EMIT EVERY 1 MILLISECOND",
    ),
]


@pytest.mark.parametrize(("relation", "text"), SAME, ids=[text[:60] for _, text in SAME])
def test_the_builder_and_the_text_give_the_same_statement(relation: Relation, text: str) -> None:
    same(relation, text)


def test_options() -> None:
    same(
        counted,
        "CREATE OR REPLACE VIEW v WITH (retain = '90 minutes', backfill = false, changelog_retain = '1 day') AS "
        "SELECT auction, count(*) AS n FROM bids GROUP BY auction",
        retain=timedelta(minutes=90),
        backfill=False,
        changelog_retain="1 day",
        or_replace=True,
    )
    same(
        counted,
        "CREATE VIEW IF NOT EXISTS v AS SELECT auction, count(*) AS n FROM bids GROUP BY auction",
        if_not_exists=True,
    )


MISUSE: list[tuple[str, Any]] = [
    ("BAD_EMIT", lambda: counted.emit(untyped("on epoch"))),
    ("BAD_EMIT", lambda: counted.emit(ms.on_epoch(), accumulate=untyped("adding"))),
    ("BAD_EMIT", lambda: counted.emit(ms.on_epoch(), lateness="-1 second")),
    ("BAD_EMIT", lambda: ms.every()),
    ("BAD_EMIT", lambda: ms.every("1 second", rows=3)),
    ("BAD_EMIT", lambda: ms.every(rows=0)),
    ("BAD_EMIT", lambda: ms.on_watermark(early=untyped(ms.on_watermark()))),
    ("BAD_DURATION", lambda: ms.every("0 seconds")),
    ("EMIT_TWICE", lambda: counted.emit(ms.on_epoch()).emit(ms.on_epoch())),
    ("EMIT_IN_QUERY", lambda: counted.emit(ms.on_epoch()).query()),
    ("NOT_CONNECTED", lambda: counted.create("v")),
    ("NOT_CONNECTED", lambda: ms.view("v").query()),
    ("NOT_CONNECTED", lambda: ms.view("v").changes()),
    ("BAD_NAME", lambda: counted.to_sql("v; DROP VIEW w")),
    ("BAD_NAME", lambda: ms.stream("")),
]


@pytest.mark.parametrize(("code", "misuse"), MISUSE)
def test_misuse_is_refused_at_the_call(code: str, misuse: Any) -> None:
    refused(code, misuse)


def test_hints_help() -> None:
    with pytest.raises(ms.MillstreamError) as caught:
        bids.join(users, on="id", how=untyped("iner"))
    assert caught.value.hint == "did you mean 'inner'?"
    with pytest.raises(ms.MillstreamError) as caught:
        counted.filter(ms.col("auctoin") > 1)
    assert caught.value.hint == "did you mean 'auction'?"


def test_relations_are_not_changed_by_what_is_made_of_them() -> None:
    before = str(counted)
    steps: tuple[Callable[[ms.Relation], ms.Relation], ...] = (
        lambda r: r.having(ms.col("n") > 1),
        lambda r: r.select("n"),
        lambda r: r.emit(ms.on_epoch()),
        lambda r: r.order_by("n").limit(1),
        lambda r: r.join(users, on="auction"),
        lambda r: r.union_all(r),
    )
    for step in steps:
        assert str(step(counted)) != before or step(counted) is not counted
        assert str(counted) == before


def test_representations() -> None:
    assert repr(counted) == "<Relation SELECT auction, COUNT(*) AS n FROM bids GROUP BY auction>"
    assert repr(bids.group_by("auction", x=price)) == "<Relation grouped by auction, x>"
    assert repr(ms.view("v")) == "<View SELECT * FROM v>"
    assert repr(price > 1) == "Expression(price > 1)"


steps = st.lists(
    st.one_of(
        st.builds(lambda e: lambda r: r.filter(e == 1), expressions),
        st.builds(lambda e: lambda r: r.with_columns(a=e), expressions),
        st.builds(lambda e, f: lambda r: r.select("c", "t", "ts", a=e, b=f), expressions, expressions),
        st.builds(lambda e: lambda r: r.order_by("a").limit(3).filter(e.is_null()), expressions),
        st.builds(
            lambda n: lambda r: r.top(2, by="a", order_by=ms.desc("b"), rank=f"rank{n}"),
            st.uuids().map(lambda u: u.hex),
        ),
        st.builds(lambda e: lambda r: r.group_by("b", "t", "ts", a=e).agg(c=ms.max("c")), expressions),
        st.builds(lambda t: lambda r: r.filter(ms.col("a") == t, ms.col("b").isin(t, "x")), texts),
        st.just(lambda r: r.distinct()),
        st.just(lambda r: r.select("a", "b", "c", "t", "ts").union_all(r.select("a", "b", "c", "t", "ts"))),
    ),
    max_size=4,
)
emits = st.builds(
    lambda trigger, how, lateness: lambda r: r.emit(trigger, accumulate=how, lateness=lateness),
    st.sampled_from([ms.on_epoch(), ms.every(rows=3), ms.every("90 seconds"), ms.on_watermark(late=ms.on_epoch())]),
    st.sampled_from(["discarding", "accumulating", "retracting"]),
    st.none() | st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=99)),
)


@settings(max_examples=100, deadline=None)
@given(steps, emits, texts)
def test_whatever_is_built_is_read_back(steps: list[Any], emit: Any, text: str) -> None:
    relation = ms.stream("s")
    for step in steps:
        relation = step(relation)
    statement = emit(relation).statement("v", retain=text)
    assert dict(statement.options)["retain"] == text
    check_round_trip(statement)
    assert emit(relation).to_sql("v", retain=text).endswith(f" AS\n{emit(relation).to_sql()}")
