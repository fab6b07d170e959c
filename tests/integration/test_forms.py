"""The kernel's forms of views: there while their view lives, and gone with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

import millstream as ms
from tests.answers import rows_of
from tests.parts import spark_of

pytestmark = pytest.mark.spark

Connect = Callable[..., ms.Database]
COUNT = "SELECT k, count(*) AS n FROM s GROUP BY k"
SUM = "SELECT k, sum(v) AS n FROM s GROUP BY k"


@pytest.fixture
def db(connect: Connect) -> ms.Database:
    database = connect()
    database.sql("CREATE STREAM s (k BIGINT, v BIGINT); CREATE MATERIALIZED VIEW stays AS SELECT v FROM s")
    return database


def forms(db: ms.Database) -> Counter[str]:
    """How many forms there are of each part."""
    return Counter(view.name for _, view in spark_of(db).forms._forms)


def work(db: ms.Database) -> None:
    db.insert("s", [{"k": 1, "v": 2}])
    db.drain()


def test_forms_go_with_their_views(db: ms.Database) -> None:
    for number in range(5):
        db.sql(f"CREATE MATERIALIZED VIEW v{number} AS {COUNT}")
        work(db)
        assert forms(db) == {"stays": 1, f"v{number}": 1}
        db.sql(f"DROP MATERIALIZED VIEW v{number}")
        assert forms(db) == {"stays": 1}


def test_the_forms_of_hidden_parts_go_too(db: ms.Database) -> None:
    db.sql(f"CREATE MATERIALIZED VIEW most AS SELECT max(n) AS n FROM ({COUNT}) AS counts")
    work(db)
    assert any(name.startswith("most$") for name in forms(db))
    db.sql("DROP MATERIALIZED VIEW most")
    assert forms(db) == {"stays": 1}


@pytest.mark.parametrize("backfill", ["true", "false"])
def test_forms_of_what_was_replaced_go(db: ms.Database, backfill: str) -> None:
    db.sql(f"CREATE MATERIALIZED VIEW v AS {COUNT}")
    work(db)
    for query in (SUM, COUNT, SUM):
        db.sql(f"CREATE OR REPLACE MATERIALIZED VIEW v WITH (backfill = '{backfill}') AS {query}")
        work(db)
        assert forms(db) == {"stays": 1, "v": 1}
    db.sql("ALTER MATERIALIZED VIEW v REBUILD")
    work(db)
    assert forms(db) == {"stays": 1, "v": 1}


def test_forms_of_a_view_whose_options_change_go(db: ms.Database) -> None:
    for days in (1, 2, 3):
        db.sql(f"CREATE OR REPLACE MATERIALIZED VIEW v WITH (changelog_retain = '{days} days') AS {COUNT}")
        work(db)
        assert forms(db) == {"stays": 1, "v": 1}


def test_forms_of_what_was_never_put_in_place_go(db: ms.Database) -> None:
    db.sql(f"CREATE MATERIALIZED VIEW v AS {COUNT}")
    work(db)
    db.sql(f"CREATE OR REPLACE MATERIALIZED VIEW v AS {SUM}")
    assert forms(db) == {"stays": 1, "v": 1, "v~": 1}
    db.sql(f"CREATE OR REPLACE MATERIALIZED VIEW v AS {COUNT}")
    assert forms(db) == {"stays": 1, "v": 1}


def test_what_is_explained_leaves_no_form(db: ms.Database) -> None:
    for number in range(3):
        (line,) = [
            row["plan"]
            for row in rows_of(db, f"EXPLAIN CREATE MATERIALIZED VIEW v{number} AS {COUNT}")
            if "kernel" in row["plan"]
        ]
        assert line.strip() == "kernel: native"
    assert forms(db) == {"stays": 1}
