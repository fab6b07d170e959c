"""The options of tables, and what a deletion says."""

from __future__ import annotations

import pyarrow as pa
import pytest

from millstream.engine.define.tables import deciding_columns, find_table, tombstones
from millstream.engine.surface.database import Database
from millstream.log import TOMBSTONE
from millstream.model.errors import MillstreamError
from tests.parts import parts_of

COLUMNS = "id BIGINT, op STRING, seq BIGINT, x DOUBLE, ts TIMESTAMP, PRIMARY KEY (id)"


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ("operation = 'nothing'", "UNKNOWN_COLUMN"),
        ("operation = 'id'", "BAD_OPTION"),
        ("operation = 'x'", "BAD_OPTION"),
        ("sequence = 'x'", "BAD_OPTION"),
        ("operation = 'seq', sequence = 'seq'", "BAD_OPTION"),
        ("deletes = 'd'", "BAD_OPTION"),
        ("history = '1 day'", "BAD_OPTION"),
        ("operation = 'op', deletes = '*'", "BAD_OPTION"),
        ("operation = 'op', deletes = 'd', upserts = 'd'", "BAD_OPTION"),
    ],
)
def test_options_that_do_not_fit_are_refused(db: Database, options: str, code: str) -> None:
    with pytest.raises(MillstreamError) as refused:
        db.sql(f"CREATE TABLE t ({COLUMNS}) WITH ({options})")
    assert refused.value.code == code
    assert parts_of(db).catalog.find("t") is None


def test_columns_are_found_in_any_case(db: Database) -> None:
    db.sql(f"CREATE TABLE t ({COLUMNS}) WITH (operation = 'OP', sequence = 'Seq')")
    rules = parts_of(db).catalog.stream("t").stream.rules
    assert (rules.operation, rules.sequence) == ("op", "seq")
    assert "op" not in parts_of(db).catalog.stream("t").stream.stored.names()


def test_changes_are_applied_by_sequence(db: Database) -> None:
    db.sql(f"CREATE TABLE t ({COLUMNS}) WITH (operation = 'op', sequence = 'seq')")
    db.insert("t", [{"id": 1, "op": "u", "seq": 5, "x": 5.0}, {"id": 1, "op": "u", "seq": 3, "x": 3.0}])
    db.insert("t", [{"id": 2, "op": "u", "seq": 1, "x": 1.0}])
    db.drain()
    db.insert("t", [{"id": 1, "op": "u", "seq": 4, "x": 4.0}, {"id": 2, "op": "d", "seq": 2, "x": None}])
    db.drain()
    assert db.query("SELECT id, x FROM t").rows() == [{"id": 1, "x": 5.0}]


def test_only_tables_can_be_deleted_from(db: Database) -> None:
    db.sql("CREATE STREAM s (k BIGINT); CREATE TABLE t (k BIGINT PRIMARY KEY)")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT k FROM s")
    assert find_table(parts_of(db).catalog, "T").name == "t"
    for name, code in (("s", "NOT_A_TABLE"), ("v", "NOT_A_TABLE"), ("nothing", "UNKNOWN_TABLE")):
        with pytest.raises(MillstreamError) as refused:
            find_table(parts_of(db).catalog, name)
        assert refused.value.code == code


def test_a_tombstone_says_its_key_and_its_place(db: Database) -> None:
    db.sql(f"CREATE TABLE t ({COLUMNS}) WITH (sequence = 'seq')")
    stream = parts_of(db).catalog.stream("t").stream
    assert deciding_columns(stream) == ("id", "seq")
    row = {"id": 1, "op": "x", "seq": 7, "x": 1.0, "ts": None}
    keys = pa.Table.from_pylist([row], stream.schema.to_arrow())
    (gone,) = tombstones(stream, keys).to_pylist()
    assert gone == {"id": 1, "op": None, "seq": 7, "x": None, "ts": None, TOMBSTONE: True}
    with pytest.raises(MillstreamError) as refused:
        tombstones(stream, pa.Table.from_pylist([{**row, "seq": None}], stream.schema.to_arrow()))
    assert refused.value.code == "MISSING_VALUE"
