"""Every query on generated input equals the batch query, wherever epochs end and a restart falls."""

from __future__ import annotations

import pytest

from tests.conftest import Connect

from .checks import check_no_letters, check_view
from .feed import Feed
from .oracle import ORACLE
from .queries import EXAMPLES, QUERIES, create, marked

LARGE = [pytest.mark.large, pytest.mark.timeout(3_600)]
SIZES = [
    pytest.param({"events": 20_000, "batches_wanted": 6}, id="small"),
    pytest.param({"events": 1_000_000, "batches_wanted": 12, "rate": 10_000}, id="large", marks=LARGE),
]


def test_every_query_has_an_oracle() -> None:
    assert list(ORACLE) == QUERIES
    assert {path.stem for path in EXAMPLES.glob("q*.sql")} == set(QUERIES)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("query", marked(QUERIES))
def test_equals_the_batch_query(connect: Connect, query: str, size: dict[str, int]) -> None:
    feed = Feed(seed=1_000 + QUERIES.index(query), **size)
    half = feed.batches // 2
    clock = feed.clock(0)
    db = connect(clock=clock)
    create(db, query)
    for number in range(feed.batches):
        if number == half:
            check_view(db, query, feed.rows(half))
            db.close()
            clock = feed.clock(number)
            db = connect(clock=clock)
        feed.set_clock(clock, number)
        feed.send(db, number)
    check_view(db, query, feed.rows(feed.batches))
    check_no_letters(db)
