"""The entry point: completion, and a reader who goes away."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

MILLSTREAM = str(Path(sys.executable).with_name("millstream"))


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("MILLSTREAM_DATA", raising=False)


@pytest.mark.parametrize("format", ["table", "csv", "json"])
def test_a_reader_who_goes_away_is_no_error(tmp_path: Path, format: str) -> None:
    text = "CREATE STREAM s (k STRING); SELECT explode(sequence(1, 100000)) AS n"
    command = [MILLSTREAM, "sql", "--data", str(tmp_path / "data"), "--format", format, "-c", text]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        shown = process.stderr.read()
        assert process.wait(120) == 0, shown
    assert shown == "created stream s\n"


def test_completion_can_be_set_up() -> None:
    done = subprocess.run([MILLSTREAM, "--help"], capture_output=True, text=True, timeout=120, check=True)
    assert "--install-completion" in done.stdout
    assert "--show-completion" in done.stdout
