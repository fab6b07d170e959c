"""The demonstration, short: it ends by itself and proves every view."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from millstream.cli.demo.feed import SCHEMA, Posts
from millstream.cli.demo.proof import Comparison

MILLSTREAM = str(Path(sys.executable).with_name("millstream"))


def test_the_feed_is_a_function_of_its_seed() -> None:
    posts = Posts(seed=5, rate=2_000)
    batch = posts.batch(7)
    assert batch.schema == SCHEMA
    assert batch.equals(Posts(seed=5, rate=2_000).batch(7))
    assert not batch.equals(Posts(seed=6, rate=2_000).batch(7))
    assert pa.concat_tables([posts.batch(0), posts.batch(1)]).column("id").to_pylist() == list(range(200))


def test_a_difference_is_not_equal() -> None:
    assert Comparison("v", "all", rows=3, expected=3, different=0, late=1).is_equal
    assert not Comparison("v", "all", rows=3, expected=3, different=2, late=0).is_equal


@pytest.mark.spark
def test_demo_proves_every_view(tmp_path: Path) -> None:
    done = subprocess.run(
        [MILLSTREAM, "demo", "--seconds", "6", "--rate", "1000", "--seed", "3", "--data", str(tmp_path / "data")],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    compared = re.findall(r"^(\w+) +([a-z ]+?) +([\d,]+) +([\d,]+) +([\d,]+) +(yes|no)", done.stdout, re.MULTILINE)
    assert [row[0] for row in compared] == ["trending", "posts_per_minute", "authors", "trending"]
    for _, _, rows, expected, _, equal in compared:
        assert rows == expected != "0"
        assert equal == "yes"
    assert "proved: all equal" in done.stdout
    assert re.search(r"posts in [\d,]+ epochs, [\d,]+ rows/s; insert to visible: median [\d,]+ ms, p99", done.stdout)
    assert "Traceback" not in done.stderr
    assert "\x1b" not in done.stdout
    assert (tmp_path / "data" / "store.duckdb").exists()
