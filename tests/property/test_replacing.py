"""Random views with random readers, replaced by views of other columns.

The oracle is DuckDB over the same rows. A replacement is accepted or refused whole. If it is accepted, the view and
all that read it equal their batch queries after every step, restarts included, and their changelogs replay to
their contents. If it is refused, everything is as before. A reader that keeps all that it reads is never the reason.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
from hypothesis import event, given, settings
from hypothesis import strategies as st

import millstream as ms
from millstream.engine.surface.database import Database
from tests.answers import rows_of
from tests.cases.harness import replay, show_value
from tests.inprocess_compute import InProcessCompute
from tests.parts import parts_of

# Of each kind of view: the columns that it may have, by name, each in one or two types, and what follows the list.
KINDS: dict[str, tuple[dict[str, list[str]], list[str]]] = {
    "groups": (
        {
            "k": ["k"],
            "n": ["count(*)", "CAST(count(*) AS INT)"],
            "v": ["max(v)", "min(v)", "CAST(max(v) AS DOUBLE)"],
            "w": ["sum(w)"],
            "x": ["min(w)"],
        },
        ["FROM s GROUP BY k", "FROM s WHERE v > 1 GROUP BY k"],
    ),
    "rows": (
        {"k": ["k"], "n": ["w", "v"], "v": ["v", "v + 1", "CAST(v AS DOUBLE)"], "w": ["w"], "x": ["v + w"]},
        ["FROM s", "FROM s WHERE v > 1"],
    ),
    "over rows": (
        {"k": ["k"], "n": ["w", "v"], "v": ["v", "v + 1"], "w": ["w"], "x": ["v - w"]},
        ["FROM every", "FROM every WHERE w > 1"],
    ),
    "over groups": (
        {"k": ["k"], "n": ["many"], "v": ["top", "many"], "w": ["top + 1"], "x": ["many + 1"]},
        ["FROM totals", "FROM totals WHERE many > 1"],
    ),
}
INNER = {
    "every": "SELECT k, v, w FROM s",
    "totals": "SELECT k, count(*) AS many, max(v) AS top FROM s GROUP BY k",
}
# A reader and the columns that it reads.
READERS = {
    "filtered": ("SELECT k, {0} AS c FROM b WHERE {0} > 1", 1),
    "counted": ("SELECT count(*) AS c FROM b", 0),
    "grouped": ("SELECT k, max({0}) AS c, count({1}) AS d FROM b GROUP BY k", 2),
    "paired": ("SELECT p.k, p.{0} AS c, q.{1} AS d FROM b AS p JOIN b AS q ON p.k = q.k", 2),
    "optional": ("SELECT p.k, q.{0} AS c FROM b AS p LEFT JOIN b AS q ON p.k = q.k + 1", 1),
    "crossed": ("SELECT t.id, b.{0} AS c FROM t CROSS JOIN b", 1),
    "united": ("SELECT k, {0} AS c FROM b UNION ALL SELECT k, {1} FROM b", 2),
    "lacking": ("SELECT k FROM b EXCEPT SELECT {0} FROM b", 1),
    "ranked": ("SELECT k, max({0}) OVER (PARTITION BY k) AS c FROM b", 1),
    "greatest": ("SELECT k FROM b WHERE {0} IN (SELECT max({1}) FROM b)", 2),
    "common": ("WITH c AS (SELECT k, {0} AS c FROM b) SELECT p.k, q.c FROM c AS p JOIN c AS q ON p.k = q.k", 1),
    "starred": ("SELECT * FROM b", 0),
}
COLUMNS = ("k", "n", "v", "w", "x")


@st.composite
def definitions(draw: st.DrawFn) -> dict[str, Any]:
    """The columns of the view, in order, and its text."""
    kind = draw(st.sampled_from(list(KINDS)))
    spelled, ends = KINDS[kind]
    others = draw(st.lists(st.sampled_from(COLUMNS[1:]), unique=True))
    columns = draw(st.permutations(["k", *others]))
    chosen = {name: draw(st.sampled_from(spelled[name])) for name in columns}
    listed = ", ".join(f"{sql} AS {name}" for name, sql in chosen.items())
    return {"kind": kind, "columns": chosen, "sql": f"SELECT {listed} {draw(st.sampled_from(ends))}"}


@st.composite
def readers(draw: st.DrawFn, columns: list[str]) -> dict[str, str]:
    chosen = draw(st.lists(st.sampled_from(list(READERS)), min_size=1, max_size=3, unique=True))
    made: dict[str, str] = {}
    for name in chosen:
        template, count = READERS[name]
        made[name] = template.format(*(draw(st.sampled_from(columns)) for _ in range(count)))
        if draw(st.booleans()):
            made[f"over_{name}"] = f"SELECT count(*) AS c FROM {name}"
    return made


rows = st.lists(st.fixed_dictionaries({name: st.integers(0, 4) for name in ("k", "v", "w")}), min_size=1, max_size=5)


@dataclass
class Run:
    directory: Path
    view: dict[str, Any]
    readers: dict[str, str]
    rows: list[dict[str, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.db = self._opened()
        self.db.sql("CREATE STREAM s (k BIGINT, v BIGINT, w BIGINT); CREATE TABLE t (id BIGINT PRIMARY KEY)")
        self.db.sql("INSERT INTO t VALUES (1), (2)")
        for name, sql in (INNER | {"b": self.view["sql"]} | self.readers).items():
            self.db.sql(f"CREATE MATERIALIZED VIEW {name} AS {sql}")

    def _opened(self) -> Database:
        settings = ms.EngineSettings(eager_spark=False)
        return Database(self.directory, lambda _: InProcessCompute(), clock=ms.ManualClock(0), settings=settings)

    def restart(self) -> None:
        self.db.close()
        self.db = self._opened()

    def insert(self, rows: list[dict[str, int]]) -> None:
        self.rows += rows
        self.db.insert("s", rows)
        self.db.drain()

    def replace(self, view: dict[str, Any]) -> None:
        refusal = None
        try:
            self.db.sql(f"CREATE OR REPLACE MATERIALIZED VIEW b AS {view['sql']}")
        except ms.MillstreamError as error:
            refusal = error
        if refusal is None:
            event("accepted")
            self.view = view
        else:
            event("refused")
            assert refusal.code == "IN_USE", refusal
            assert not self.fits(view), refusal

    def fits(self, view: dict[str, Any]) -> bool:
        """Whether every reader surely is the same over another view."""
        mine, other = self.view, view
        if mine["kind"] != other["kind"] or any(sql == READERS["starred"][0] for sql in self.readers.values()):
            return bool(mine["columns"] == other["columns"] and mine["kind"] == other["kind"])
        return all(other["columns"].get(name) == sql for name, sql in mine["columns"].items())

    def check(self) -> None:
        failures = parts_of(self.db).store.failures()
        assert not failures, dict(failures)
        with duckdb.connect() as batch:
            batch.execute("CREATE TABLE s (k BIGINT, v BIGINT, w BIGINT)")
            batch.execute("CREATE TABLE t AS SELECT unnest([1, 2])::BIGINT AS id")
            for row in self.rows:
                batch.execute("INSERT INTO s VALUES (?, ?, ?)", [row["k"], row["v"], row["w"]])
            for name, sql in (INNER | {"b": self.view["sql"]} | self.readers).items():
                batch.execute(f"CREATE VIEW {name} AS {sql}")
                result = batch.sql(f"SELECT * FROM {name}")
                contents = self.db.query(f"SELECT * FROM {name}")
                assert contents.columns == result.columns, name
                expected = Counter(tuple(show_value(value) for value in row) for row in result.fetchall())
                got = Counter(tuple(show_value(row[c]) for c in contents.columns) for row in contents.rows())
                assert got == expected, name
                keys = [row["column"] for row in rows_of(self.db, f"DESCRIBE {name}") if row["note"] == "key"]
                assert replay(self.db.changes(name).rows(), contents.columns, keys) == got, name


@settings(max_examples=25)
@given(data=st.data())
def test_readers_do_not_notice_other_columns(data: st.DataObject) -> None:
    view = data.draw(definitions())
    with TemporaryDirectory() as directory:
        run = Run(Path(directory) / "db", view, data.draw(readers(list(view["columns"]))))
        try:
            run.insert(data.draw(rows))
            run.check()
            for _ in range(data.draw(st.integers(1, 3))):
                run.replace(data.draw(definitions()))
                if data.draw(st.booleans()):
                    run.restart()
                if data.draw(st.booleans()):
                    run.db.drain()
                    run.check()
                run.insert(data.draw(rows))
                run.check()
                if data.draw(st.booleans()):
                    run.restart()
        finally:
            run.db.close()
