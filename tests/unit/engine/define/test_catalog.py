"""What exists, by name."""

from __future__ import annotations

import pytest

from millstream.engine.define.catalog import Catalog, ViewEntry, read_names
from millstream.engine.surface.database import Database
from millstream.model.errors import MillstreamError
from millstream.sql import parse_statement
from millstream.sql.statements import CreateView
from tests.parts import parts_of


def view(name: str, query: str) -> ViewEntry:
    create = parse_statement(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    assert isinstance(create, CreateView)
    return ViewEntry(create, "1")


def test_names_are_found_in_any_case() -> None:
    catalog = Catalog()
    entry = view("Totals", "SELECT 1 AS n FROM s")
    catalog.add(entry)
    assert catalog.find("tOTALS") is entry
    assert catalog.view("TOTALS").name == "Totals"
    catalog.remove("totals")
    assert catalog.find("Totals") is None


def test_what_views_read_comes_before_them() -> None:
    catalog = Catalog()
    for name, read in (("c", "b"), ("b", "a"), ("a", "s"), ("d", "s")):
        catalog.add(view(name, f"SELECT n FROM {read}"))
    catalog.arrange()
    assert [entry.name for entry in catalog.views()] == ["a", "b", "c", "d"]


def test_views_that_read_each_other_are_arranged_all_the_same() -> None:
    catalog = Catalog()
    catalog.add(view("a", "SELECT n FROM b"))
    catalog.add(view("b", "SELECT n FROM a"))
    catalog.arrange()
    assert {entry.name for entry in catalog.views()} == {"a", "b"}


@pytest.mark.parametrize("name", ["s__late", "S__DEAD", "v$1", "v~"])
def test_names_of_our_own_are_refused(name: str) -> None:
    with pytest.raises(MillstreamError) as refused:
        Catalog().check_free(name, None)
    assert refused.value.code == "RESERVED_NAME"


def test_a_taken_name_is_refused_in_any_case() -> None:
    catalog = Catalog()
    catalog.add(view("v", "SELECT 1 AS n FROM s"))
    with pytest.raises(MillstreamError) as refused:
        catalog.check_free("V", None)
    assert refused.value.code == "ALREADY_EXISTS"


def test_an_unknown_name_gets_the_nearest_one(db: Database) -> None:
    db.sql("CREATE STREAM orders (k BIGINT); CREATE MATERIALIZED VIEW totals AS SELECT count(*) AS n FROM orders")
    with pytest.raises(MillstreamError) as refused:
        parts_of(db).catalog.view("total")
    assert refused.value.code == "UNKNOWN_VIEW"
    assert refused.value.hint is not None
    assert "totals" in refused.value.hint
    with pytest.raises(MillstreamError) as refused:
        parts_of(db).catalog.stream("order")
    assert refused.value.code == "UNKNOWN_STREAM"


def test_what_a_select_may_read(db: Database) -> None:
    db.sql("CREATE STREAM S (k BIGINT); CREATE TABLE T (k BIGINT PRIMARY KEY)")
    db.sql("CREATE MATERIALIZED VIEW V AS SELECT k FROM S")
    assert parts_of(db).catalog.readable() == {
        "s__late": "S__late",
        "s__dead": "S__dead",
        "t": "T",
        "t__late": "T__late",
        "t__dead": "T__dead",
        "v": "V",
    }


def test_the_relations_that_a_query_names() -> None:
    query = "SELECT * FROM TUMBLE(Bids, ts, INTERVAL 1 MINUTE) JOIN Items AS i ON true WHERE k IN (SELECT k FROM Other)"
    create = parse_statement(f"CREATE MATERIALIZED VIEW v AS {query}")
    assert isinstance(create, CreateView)
    assert sorted(read_names(create.query)) == ["bids", "items", "other"]
