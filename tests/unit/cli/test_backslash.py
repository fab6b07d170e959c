"""The commands of the prompt."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import millstream as ms
from millstream.api import Connection
from millstream.cli.backslash import run_command
from millstream.cli.formats import Format


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Connection]:
    with ms.connect(tmp_path / "data", settings=ms.EngineSettings(eager_spark=False)) as database:
        database.sql("CREATE STREAM clicks (page STRING); CREATE TABLE users (id BIGINT PRIMARY KEY)")
        yield database


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (r"\d", ["stream  clicks  from log", "table   users   from log"]),
        (r"\d users", ["id", "BIGINT"]),
        (r"\ds", ["clicks"]),
        (r"\dt", ["users"]),
        (r"\sf clicks", ["CREATE STREAM clicks"]),
        (r"\s", ["epoch 0"]),
        (r"\?", [r"\dv", "SUBSCRIBE"]),
        ("help", [r"\q"]),
    ],
)
def test_commands(db: Connection, command: str, shown: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(db, command, Format.CSV)
    out = capsys.readouterr().out
    assert [text for text in shown if text not in out] == []


@pytest.mark.parametrize("command", [r"\q", "exit", "quit"])
def test_leaving(db: Connection, command: str) -> None:
    assert not run_command(db, command, Format.TABLE)


@pytest.mark.parametrize(("command", "hint"), [(r"\x", r"\?"), (r"\sf", "it needs a name")])
def test_what_is_no_command(db: Connection, command: str, hint: str) -> None:
    with pytest.raises(ms.MillstreamError) as unknown:
        run_command(db, command, Format.TABLE)
    assert unknown.value.code == "UNKNOWN_COMMAND"
    assert hint in (unknown.value.hint or "")
