"""Users' functions: what becomes known to the store and to what computes, and what is refused."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from millstream.engine.surface.database import Database
from millstream.model.errors import MillstreamError
from tests.answers import rows_of
from tests.inprocess_compute import InProcessCompute
from tests.unit.engine.conftest import Open


def twice(values: pa.Array) -> pa.Array:
    return pc.multiply(values, 2)


def create(db: Database, name: str = "twice") -> None:
    db.create_function(name, twice, arguments=["BIGINT"], returns="BIGINT")


def states(db: Database) -> dict[str, str]:
    return {row["name"]: row["status"] for row in rows_of(db, "SHOW FUNCTIONS")}


def test_a_function_is_known_to_what_computes(db: Database, compute: InProcessCompute) -> None:
    create(db)
    assert [function.name for function in compute.functions] == ["twice"]
    create(db, "also")
    assert [function.name for function in compute.functions] == ["also", "twice"]


def test_the_store_calls_it(db: Database) -> None:
    create(db)
    db.sql("CREATE TABLE t (k BIGINT PRIMARY KEY)")
    db.insert("t", [{"k": 4}])
    db.drain()
    assert db.query("SELECT twice(k) AS n FROM t").rows() == [{"n": 8}]


def test_after_a_restart_it_is_missing_until_it_is_passed_again(open_database: Open) -> None:
    db = open_database()
    create(db)
    db.close()
    compute = InProcessCompute()
    db = open_database(compute=compute)
    assert states(db) == {"twice": "missing"}
    assert [function.name for function in compute.functions] == []
    create(db)
    assert states(db) == {"twice": "ready"}
    assert [function.name for function in compute.functions] == ["twice"]


@pytest.mark.parametrize("name", ["count", "upper", "sum"])
def test_names_of_sql_are_refused(db: Database, name: str) -> None:
    with pytest.raises(MillstreamError) as refused:
        create(db, name)
    assert refused.value.code == "RESERVED_NAME"
    assert states(db) == {}


def test_only_modules_that_are_allowed_are_imported(db: Database, compute: InProcessCompute) -> None:
    with pytest.raises(MillstreamError) as refused:
        db.sql("CREATE FUNCTION f (x BIGINT) RETURNS BIGINT AS 'os:getpid'")
    assert refused.value.code == "MODULE_NOT_ALLOWED"
    assert compute.functions == ()


def test_a_name_is_taken_once(db: Database) -> None:
    create(db)
    with pytest.raises(MillstreamError) as refused:
        create(db, "TWICE")
    assert refused.value.code == "ALREADY_EXISTS"
    db.sql("DROP FUNCTION twice")
    create(db, "TWICE")
    assert states(db) == {"TWICE": "ready"}


@pytest.mark.parametrize(
    "query", ["SELECT twice(k) AS n FROM t", "SELECT twice(n) AS n FROM g", "SELECT twice(count(*)) AS n FROM s"]
)
def test_a_function_that_the_store_calls_is_not_replaced_while_it_is_used(db: Database, query: str) -> None:
    """Rows that go are computed again: by other code they would not be those that came."""
    db.sql("CREATE TABLE t (k BIGINT PRIMARY KEY); CREATE STREAM s (k BIGINT)")
    db.sql("CREATE MATERIALIZED VIEW g AS SELECT count(*) AS n FROM s")
    create(db)
    db.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    with pytest.raises(MillstreamError) as refused:
        db.create_function("twice", lambda values: values, arguments=["BIGINT"], returns="BIGINT", replace=True)
    assert refused.value.code == "IN_USE"
    assert refused.value.message == "function twice is called in the store by v and cannot be replaced"
    db.sql("DROP VIEW v")
    db.create_function("twice", lambda values: values, arguments=["BIGINT"], returns="BIGINT", replace=True)
    db.insert("t", [{"k": 4}])
    db.drain()
    assert db.query("SELECT twice(k) AS n FROM t").rows() == [{"n": 4}]


def test_a_missing_function_is_passed_again_with_replace(open_database: Open) -> None:
    db = open_database()
    create(db)
    db.sql("CREATE TABLE t (k BIGINT PRIMARY KEY); CREATE MATERIALIZED VIEW v AS SELECT twice(k) AS n FROM t")
    db.close()
    db = open_database()
    db.create_function("twice", twice, arguments=["BIGINT"], returns="BIGINT", replace=True)
    db.insert("t", [{"k": 4}])
    db.drain()
    assert db.query("SELECT n FROM v").rows() == [{"n": 8}]
