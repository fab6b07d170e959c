"""A program that ends with an exception, its database open."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_PROGRAM = """
import sys
import millstream as ms

def main():
    db = ms.connect(sys.argv[1], settings=ms.EngineSettings(eager_spark=False))
    assert "pandas" not in sys.modules
    db.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    {ending}

main()
"""


@pytest.mark.parametrize(
    ("ending", "last"),
    [
        ('raise ValueError("mine")', "ValueError: mine"),
        ('db.query("SELECT nope FROM t")', "hint: see DESCRIBE for the columns of a view"),
    ],
)
def test_the_error_is_the_last_thing_shown(tmp_path: Path, ending: str, last: str) -> None:
    program = [sys.executable, "-c", _PROGRAM.format(ending=ending), str(tmp_path / "data")]
    ended = subprocess.run(program, capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith("Traceback")
    assert ended.stderr.splitlines()[-1] == last
