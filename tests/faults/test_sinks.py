"""Kill -9 in the middle of a delivery, again and again: the topic has each change once, in order."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.conftest import Connect
from tests.parts import parts_of

SCRIPT = Path(__file__).with_name("sink_worker.py")
EPOCHS = 8
POINTS = [
    ("before", 1),
    ("middle", 1),
    ("after", 1),
    ("middle", 2),
    ("before", 2),
    ("middle", 1),
    ("acknowledge", 1),
    ("after", 2),
    ("acknowledge", 1),
]


def test_a_killed_delivery_loses_and_repeats_nothing(connect: Connect, tmp_path: Path) -> None:
    directory = tmp_path / "db"
    with connect() as db:
        db.sql("CREATE STREAM s (k BIGINT, v BIGINT)")
        db.sql("CREATE MATERIALIZED VIEW w AS SELECT k, sum(v) AS total, count(*) AS n FROM s GROUP BY k")
        for epoch in range(EPOCHS):
            db.insert("s", [{"k": k, "v": epoch} for k in range(6)])
            db.drain()
        changes = db.changes("w").rows()
        db.sql("CREATE SINK out FROM w INTO TOPIC out")
    killed = 0
    for point, number in POINTS:
        ended = subprocess.run(
            [sys.executable, str(SCRIPT), str(directory), point, str(number)],
            capture_output=True,
            timeout=300,
            check=False,
        )
        assert ended.returncode in (0, -signal.SIGKILL), ended.stderr.decode()
        killed += ended.returncode != 0
    assert killed >= 7, "the points at which it is killed are no longer reached"
    with connect() as db:
        db.drain()
        landed: list[dict[str, Any]] = [
            row for batch in parts_of(db).log.topic("out").read(0, 0) for row in batch.to_pylist()
        ]
        (shown,) = db.sql("SHOW SINKS").rows()
    assert [{k: row[k] for k in changes[0]} for row in landed] == changes
    assert (shown["epoch"], shown["lag"], shown["error"]) == (changes[-1]["epoch"], 0, None)
