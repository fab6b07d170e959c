"""A store is a function of its commands: those of a random run, encoded, make the same store again.

A sample of runs; `-m thorough` runs more, and `python -m tests.property.command_runs 1000` any number of them.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from millstream.model.errors import MillstreamError
from millstream.model.progress import Progress
from millstream.store.codec import FORMAT, Decoder, encode
from millstream.store.commands import Acknowledge, Commit, Drop, StreamPart
from tests.parts import parts_of
from tests.property.command_runs import Run, check, replayed

SAMPLE, THOROUGH = 4, 60
FOUND = (109, 2057)
"""Runs that once found a difference: ids of sessions, views that a failed commit had moved."""


@pytest.mark.parametrize(
    "seed",
    [*FOUND, *(pytest.param(n, marks=() if n < SAMPLE else (pytest.mark.thorough,)) for n in range(THOROUGH))],
)
def test_commands_make_the_same_store_again(seed: int) -> None:
    assert check(seed)


def test_a_command_that_is_missing_is_noticed(tmp_path: Path) -> None:
    """The comparison can fail: rows that no command brings are not there."""
    run = Run(tmp_path / "db", 0)
    run.sql("CREATE STREAM a (v INT)")
    run.sql("CREATE MATERIALIZED VIEW v0 AS SELECT count(*) AS n FROM a")
    for _ in range(2):
        run.db.insert("a", [{"v": 1}])
        run.db.drain()
    run.close()
    decoder = Decoder()
    last = max(n for n, data in enumerate(run.encoded) if isinstance(decoder.decode(data), Commit))
    (tmp_path / "whole").mkdir()
    whole = replayed(run.encoded, tmp_path / "whole", 0)
    less = replayed([data for n, data in enumerate(run.encoded) if n != last], tmp_path, 0)
    assert {name for name in whole if whole[name] != less.get(name)} >= {"table ms.epochs", "table ms.progress"}


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: data[:20], lambda data: data[:1] + b"\0" * 9])
def test_damaged_commands_are_refused(tmp_path: Path, damage: object) -> None:
    assert callable(damage)
    run = Run(tmp_path, 0)
    run.sql("CREATE STREAM a (v INT)")
    run.close()
    with pytest.raises(MillstreamError) as refused:
        Decoder().decode(damage(run.encoded[0]))
    assert refused.value.code == "BAD_COMMAND"


def test_an_unknown_format_and_an_unknown_relation_are_refused(tmp_path: Path) -> None:
    data = encode(Acknowledge("s", 3, "x"))
    assert Decoder().decode(data) == Acknowledge("s", 3, "x")
    for other in (b"", bytes([FORMAT + 1]) + data[1:]):
        with pytest.raises(MillstreamError) as refused:
            Decoder().decode(other)
        assert refused.value.code == "COMMAND_VERSION"
    run = Run(tmp_path, 0)
    run.sql("CREATE STREAM a (v INT)")
    entry = parts_of(run.db).catalog.stream("a")
    run.close()
    rows = pa.table({"v": pa.array([1], pa.int32())})
    commit = encode(Commit(0, [StreamPart(entry.stream, Progress({0: 1}), dead_rows=rows)], []))
    decoder = Decoder()
    decoder.decode(run.encoded[0])
    decoded = decoder.decode(commit)
    assert isinstance(decoded, Commit)
    assert decoded.streams[0].dead_rows == rows
    decoder.decode(encode(Drop(["a"])))
    with pytest.raises(MillstreamError) as refused:
        decoder.decode(commit)
    assert refused.value.code == "BAD_COMMAND"
