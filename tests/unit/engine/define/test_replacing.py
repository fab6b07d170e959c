"""Views that get another definition, without a JVM."""

from __future__ import annotations

import pytest

from millstream.engine.surface.database import Database
from millstream.model.errors import MillstreamError
from tests.answers import rows_of
from tests.inprocess_compute import InProcessCompute
from tests.parts import parts_of
from tests.unit.engine.conftest import Open

COUNT = "SELECT k, count(*) AS n FROM s GROUP BY k"
SUM = "SELECT k, sum(v) AS n FROM s GROUP BY k"


@pytest.fixture
def filled(db: Database) -> Database:
    db.sql(f"CREATE STREAM s (k BIGINT, v BIGINT); CREATE MATERIALIZED VIEW v AS {COUNT}")
    db.insert("s", [{"k": 1, "v": 10}, {"k": 1, "v": 20}])
    db.drain()
    return db


def replace(db: Database, query: str, options: str = "") -> None:
    db.sql(f"CREATE OR REPLACE MATERIALIZED VIEW v {options} AS {query}")


def content(db: Database) -> list[dict[str, int]]:
    return list(db.query("SELECT * FROM v").rows())


def test_the_same_definition_builds_nothing(filled: Database, compute: InProcessCompute) -> None:
    replace(filled, COUNT)
    assert parts_of(filled).catalog.view("v").successor is None
    assert compute.lane("past").reads == []


def test_other_options_take_effect_in_place(filled: Database) -> None:
    replace(filled, COUNT, "WITH (changelog_retain = '2 days')")
    assert parts_of(filled).catalog.view("v").successor is None
    assert content(filled) == [{"k": 1, "n": 2}]


def test_another_query_is_built_beside_the_old_one(filled: Database, compute: InProcessCompute) -> None:
    replace(filled, SUM)
    assert sorted(view.name for _, view in compute.forms) == ["v", "v~"]
    assert content(filled) == [{"k": 1, "n": 2}]
    filled.drain()
    assert content(filled) == [{"k": 1, "n": 30}]
    assert "v~" not in [view.name for _, view in compute.forms]


def test_the_last_replacement_counts(filled: Database, compute: InProcessCompute) -> None:
    replace(filled, SUM)
    replace(filled, "SELECT k, max(v) AS n FROM s GROUP BY k")
    filled.drain()
    assert content(filled) == [{"k": 1, "n": 20}]
    assert "v~" not in [view.name for _, view in compute.forms]


def test_a_replacement_is_taken_back_by_the_old_definition(filled: Database) -> None:
    replace(filled, SUM)
    replace(filled, COUNT)
    assert parts_of(filled).catalog.view("v").successor is None
    filled.drain()
    assert content(filled) == [{"k": 1, "n": 2}]


def test_a_view_cannot_read_itself(filled: Database) -> None:
    filled.sql("CREATE MATERIALIZED VIEW w AS SELECT n FROM v")
    with pytest.raises(MillstreamError):
        replace(filled, "SELECT n AS k, n FROM w")
    assert parts_of(filled).catalog.view("v").successor is None
    filled.drain()
    assert content(filled) == [{"k": 1, "n": 2}]


def test_what_others_read_must_stay(filled: Database, compute: InProcessCompute) -> None:
    filled.sql("CREATE MATERIALIZED VIEW w AS SELECT n FROM v")
    with pytest.raises(MillstreamError):
        replace(filled, "SELECT k, count(*) AS other FROM s GROUP BY k")
    assert parts_of(filled).catalog.view("v").successor is None
    assert "v~" not in [view.name for _, view in compute.forms]


def test_what_is_being_rebuilt_is_not_rebuilt_again(filled: Database) -> None:
    filled.sql("ALTER MATERIALIZED VIEW v REBUILD")
    with pytest.raises(MillstreamError) as refused:
        filled.sql("ALTER MATERIALIZED VIEW v REBUILD")
    assert refused.value.code == "BEING_BUILT"


def test_a_replacement_goes_on_after_a_restart(open_database: Open, filled: Database) -> None:
    replace(filled, SUM)
    filled.close()
    db = open_database()
    assert content(db) == [{"k": 1, "n": 2}]
    db.drain()
    assert content(db) == [{"k": 1, "n": 30}]


PAIRS = "SELECT a.v AS x, b.v AS y FROM r AS a JOIN r AS b ON a.k = b.k"


@pytest.mark.parametrize(
    "query",
    [
        "SELECT k, v FROM every WHERE v > 10",
        "SELECT v, 'x' AS x, k FROM every WHERE v > 10",
        "SELECT v + 1 AS next, k, v FROM s WHERE v > 10",
    ],
    ids=["another kind of view", "another kind of view with another column", "another column"],
)
def test_a_self_join_reads_the_new_rows_once(filled: Database, query: str) -> None:
    """All rows of a view of rows come with the epoch in which its tables are exchanged."""
    filled.sql("CREATE MATERIALIZED VIEW every AS SELECT k, v FROM s; CREATE MATERIALIZED VIEW r AS SELECT k, v FROM s")
    filled.sql(f"CREATE MATERIALIZED VIEW pairs AS {PAIRS}")
    filled.drain()
    filled.sql(f"CREATE OR REPLACE MATERIALIZED VIEW r AS {query}")
    filled.drain()
    assert filled.query("SELECT x, y FROM pairs").rows() == [{"x": 20, "y": 20}]
    filled.insert("s", [{"k": 1, "v": 30}])
    filled.drain()
    expected = [(20, 20), (20, 30), (30, 20), (30, 30)]
    assert [(row["x"], row["y"]) for row in filled.query("SELECT x, y FROM pairs ORDER BY x, y").rows()] == expected


def refused(db: Database, query: str) -> MillstreamError:
    with pytest.raises(MillstreamError) as error:
        replace(db, query)
    assert error.value.code == "IN_USE"
    assert parts_of(db).catalog.view("v").successor is None
    return error.value


def test_a_refusal_says_what_each_reader_misses(filled: Database) -> None:
    filled.sql("CREATE MATERIALIZED VIEW named AS SELECT k FROM v; CREATE MATERIALIZED VIEW w AS SELECT n FROM v")
    error = refused(filled, "SELECT k, count(*) AS other FROM s GROUP BY k")
    assert (error.message, error.detail) == (
        "v is read by w, which would not fit the new definition",
        "w: it reads n, which would be gone",
    )
    error = refused(filled, "SELECT CAST(k AS STRING) AS k, count(*) AS n FROM s GROUP BY CAST(k AS STRING)")
    assert error.detail == "named: it reads k, which would be STRING instead of BIGINT"


def test_a_star_reads_all_columns(filled: Database) -> None:
    filled.sql("CREATE MATERIALIZED VIEW w AS SELECT * FROM v")
    error = refused(filled, "SELECT k, count(*) AS n, max(v) AS top FROM s GROUP BY k")
    assert error.detail == "w: it selects *, which would be other columns"
    assert "instead of *" in (error.hint or "")


def test_a_reader_that_is_being_replaced_must_fit_too(filled: Database) -> None:
    filled.sql("CREATE MATERIALIZED VIEW w AS SELECT k FROM s GROUP BY k")
    filled.drain()
    # It reads history first, and then `n`.
    filled.sql("CREATE OR REPLACE MATERIALIZED VIEW w AS SELECT s.k FROM s JOIN v ON s.k = v.n")
    assert "w: it reads n" in (refused(filled, "SELECT k, max(v) AS top FROM s GROUP BY k").detail or "")
    replace(filled, "SELECT max(v) AS top, k, count(*) AS n FROM s GROUP BY k")
    filled.drain()
    assert [view["state"] for view in rows_of(filled, "SHOW VIEWS")] == ["live", "live"]
