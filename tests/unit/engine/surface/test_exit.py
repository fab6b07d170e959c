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

_FUNCTION = 'db.create_function("f", lambda x: x, arguments=["INT"], returns="INT"); db.query("SELECT f(1) AS x")'
_ASKING = """import threading; begun = threading.Event()
    def ask():
        while True:
            db.query("SELECT count(*) AS n FROM t"); begun.set()
    threading.Thread(target=ask, daemon=True).start(); begun.wait()"""


@pytest.mark.parametrize(
    ("ending", "last"),
    [
        ('raise ValueError("mine")', "ValueError: mine"),
        ('db.query("SELECT nope FROM t")', "hint: see DESCRIBE for the columns of a view"),
        ('with db: raise ValueError("mine")', "ValueError: mine"),
        ('db.start(); raise ValueError("mine")', "ValueError: mine"),
        ('globals()["kept"] = db, db.query("SELECT * FROM t"); raise ValueError("mine")', "ValueError: mine"),
        (f'{_FUNCTION}; raise ValueError("mine")', "ValueError: mine"),
        (f'{_ASKING}; raise ValueError("mine")', "ValueError: mine"),
    ],
    ids=["plain", "refused", "with", "running", "global", "function", "daemon"],
)
def test_the_error_is_the_last_thing_shown(tmp_path: Path, ending: str, last: str) -> None:
    program = [sys.executable, "-c", _PROGRAM.format(ending=ending), str(tmp_path / "data")]
    ended = subprocess.run(program, capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith("Traceback")
    assert ended.stderr.splitlines()[-1] == last
    assert ended.stderr.count("Traceback") == 1


@pytest.mark.parametrize(("ending", "code"), [("sys.exit(3)", 3), (f"{_ASKING}; sys.exit(3)", 3), ("pass", 0)])
def test_a_program_that_leaves_says_nothing(tmp_path: Path, ending: str, code: int) -> None:
    program = [sys.executable, "-c", _PROGRAM.format(ending=ending), str(tmp_path / "data")]
    ended = subprocess.run(program, capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (code, "", "")
