"""Scripts taken apart, and the words about what statements did."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import millstream as ms
from millstream.api import Connection, Done, Starts
from millstream.cli.script import apply_step, read_steps, run_step, words


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Connection]:
    with ms.connect(tmp_path / "data", settings=ms.EngineSettings(eager_spark=False)) as database:
        yield database


def test_each_step_is_alone_at_its_place() -> None:
    script = "SHOW STREAMS; -- a ; here\n SELECT ';' AS x;;\nSELECT 2"
    steps = read_steps(script, "s.sql")
    assert [len(step.text) for step in steps] == [len(script)] * 3
    assert [step.text.split() for step in steps] == [["SHOW", "STREAMS"], ["SELECT", "';'", "AS", "x"], ["SELECT", "2"]]
    assert [step.text.count("\n") for step in steps] == [2, 2, 2]


def test_an_error_shows_the_line_as_it_was_written(db: Connection) -> None:
    script = "SHOW STREAMS;\nSHOW TABLES; SELECT * FROM nothing; SHOW VIEWS;"
    *_, step, _ = read_steps(script, "s.sql")
    with pytest.raises(ms.MillstreamError) as unknown:
        run_step(db, step)
    assert unknown.value.position is not None
    assert unknown.value.position.excerpt() == (
        "  s.sql:2:28\n  2 | SHOW TABLES; SELECT * FROM nothing; SHOW VIEWS;\n    |                            ^^^^^^^"
    )


@pytest.mark.parametrize(
    ("text", "only_reads"),
    [
        ("SELECT 1", True),
        ("SHOW STREAMS", True),
        ("DESCRIBE s", True),
        ("SHOW CREATE s", True),
        ("SUBSCRIBE v", True),
        ("EXPLAIN v", True),
        ("CREATE STREAM s (k STRING)", False),
        ("INSERT INTO s VALUES ('a')", False),
        ("DROP STREAM s", False),
        ("SET kernel = 'auto'", False),
    ],
)
def test_what_only_reads(text: str, only_reads: bool) -> None:
    (step,) = read_steps(text, "<sql>")
    assert step.only_reads is only_reads


def test_a_script_runs_again(db: Connection) -> None:
    (step,) = read_steps("CREATE STREAM s (k STRING)", "<sql>")
    outcomes = [apply_step(db, step, Starts()) for _ in range(2)]
    assert [words(done) for done in outcomes if isinstance(done, Done)] == [
        "created stream s",
        "stream s is there already",
    ]


@pytest.mark.parametrize(
    ("done", "line"),
    [
        (Done("CREATE MATERIALIZED VIEW", "replaced", "v"), "replaced view v"),
        (Done("DROP TABLE", "dropped", "t"), "dropped table t"),
        (Done("DROP VIEW", "absent", "v"), "there is no view v"),
        (Done("INSERT", "inserted", "s", 1), "inserted 1 row into s"),
        (Done("DELETE", "deleted", "t", 2_000), "deleting 2,000 rows from t"),
        (Done("SET", "altered", "kernel"), "set kernel"),
        (Done("ALTER MATERIALIZED VIEW", "altered", "v"), "rebuilding view v"),
    ],
)
def test_words(done: Done, line: str) -> None:
    assert words(done) == line
