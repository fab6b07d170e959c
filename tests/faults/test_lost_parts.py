"""Parts of Spark that are killed in the middle of a task are replaced, and the epoch runs again."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

SCRIPT = Path(__file__).with_name("lost_parts_worker.py")


@pytest.mark.parametrize(
    ("part", "kernel"), [("jvm", "auto"), ("worker", "auto"), ("daemon", "spark")], ids=lambda value: str(value)
)
def test_a_lost_part_is_replaced(tmp_path: Path, part: str, kernel: str) -> None:
    check(tmp_path, kernel, part, "drain")


def check(directory: Path, kernel: str, part: str, mode: str) -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(directory), kernel, part, mode],
        capture_output=True,
        text=True,
        timeout=580,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["failure"] is None
    for name, rows in said["views"].items():
        assert rows == said["expected"], name
    assert "Traceback" not in done.stderr
