"""Money is moved, never made: in every epoch, for every reader, while processes are killed."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from pathlib import Path

import pytest

import millstream as ms

from .bank_worker import BATCH_ROWS, faults, rows_of
from .bank_worker import __file__ as script
from .workers import Worker

pytestmark = pytest.mark.spark

KILLS = 6


def check_every_epoch(db: ms.Database) -> None:
    """Replay the changelogs side by side: after each epoch the balances add up, and no join is half done."""
    changes = defaultdict(list)
    for view in ("balance", "total", "matched"):
        for change in db.changes(view).rows():
            changes[change["epoch"]].append((view, change))
    balances: dict[int, int] = {}
    totals: Counter[int | None] = Counter()
    halves = 0
    for epoch in sorted(changes):
        for view, change in changes[epoch]:
            comes = change["op"] in ("insert", "upsert")
            match view:
                case "balance" if comes:
                    balances[change["account"]] = change["balance"]
                case "balance" if balances.get(change["account"]) == change["balance"]:
                    del balances[change["account"]]
                case "total":
                    totals[change["total"]] += 1 if comes else -1
                case "matched" if change["partner"] is None:
                    halves += 1 if comes else -1
        assert sum(balances.values()) == 0, f"epoch {epoch}: money was made"
        assert not any(count and total for total, count in totals.items()), f"epoch {epoch}: {totals}"
        assert halves == 0, f"epoch {epoch}: half of a join was committed"


def test_no_money_is_made(tmp_path: Path, jvm: dict[str, str]) -> None:
    directory = tmp_path / "data"
    chance = random.Random(7)
    acknowledged = -1
    for number in range(KILLS):
        worker = Worker(directory, "loop", jvm=jvm, script=Path(script))
        try:
            worker.begin(acknowledged + 1)
            worker.wait_for("epoch" if number == 0 else chance.choice(("ack", "epoch")))
            worker.listen(chance.uniform(0, 1.5))
        finally:
            worker.kill()
        assert not [line for line in worker.said if line.startswith("wrong")]
        acknowledged = worker.acknowledged if worker.acknowledged is not None else acknowledged
    with ms.connect(directory) as db:
        # The batch after the last acknowledged one may or may not be in the log.
        rows = rows_of(acknowledged + 1)
        db.insert("transfers", rows, message_ids=[f"transfer-{row['id']}" for row in rows])
        db.drain()
        assert faults(db) == []
        check_every_epoch(db)
        everything = [row for batch in range(acknowledged + 2) for row in rows_of(batch)]
        expected = Counter[object]()
        for row in everything:
            expected[row["target"]] += 1
            expected[row["source"]] -= 1
        got = {row["account"]: row["balance"] for row in db.query("SELECT * FROM balance").rows()}
        assert got == {account: expected[account] for account in got}
        assert set(got) == {row[side] for row in everything for side in ("source", "target")}
        (counted,) = db.query("SELECT count(*) AS n, count(DISTINCT id) AS ids FROM matched").rows()
        assert counted == {"n": (acknowledged + 2) * BATCH_ROWS, "ids": (acknowledged + 2) * BATCH_ROWS}
