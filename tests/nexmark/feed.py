"""A generated input, cut into batches at random places.

Owns what is sent, when, and which rows that makes. A feed is the same for the same seed, so the
process that is killed, the one that takes over and the oracle agree on every row. A batch is sent
at one instant of processing time; its streams go in random order, with an epoch after some of them.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

import millstream as ms
from millstream.model.schema import TIMESTAMP
from millstream.model.time import MICROS
from millstream.nexmark.generator import Nexmark
from millstream.nexmark.settings import Settings

KINDS = ("person", "auction", "bid")
STARTS_AT = 1_750_000_003
"""Processing time of the first batch, in seconds."""
PATIENCE = 3.7
"""Seconds of processing time between two batches."""


@dataclass(frozen=True)
class Feed:
    """Events 0 to `events`, in about so many batches. Disorder stays within the slack of the streams."""

    seed: int
    events: int
    batches_wanted: int
    rate: int = 500
    disorder: int = 3 * MICROS

    @cached_property
    def cuts(self) -> list[int]:
        chance = random.Random(self.seed)
        inner = chance.sample(range(1, self.events), self.batches_wanted - 1)
        return [0, *sorted(inner), self.events]

    @property
    def batches(self) -> int:
        return len(self.cuts) - 1

    @cached_property
    def _nexmark(self) -> Nexmark:
        return Nexmark(Settings(seed=self.seed, rate=self.rate, disorder=self.disorder))

    def clock(self, batch: int) -> ms.ManualClock:
        """The clock while a batch is sent."""
        return ms.ManualClock(STARTS_AT + batch * PATIENCE)

    def set_clock(self, clock: ms.ManualClock, batch: int) -> None:
        """Bring a clock that runs behind to the instant of a batch."""
        clock.advance((self.clock(batch).now() - clock.now()) / MICROS)

    def batch(self, number: int) -> dict[str, pa.Table]:
        return self._nexmark.events(self.cuts[number], self.cuts[number + 1]).tables()

    def send(self, db: ms.Database, number: int) -> None:
        """Insert a batch and process it; the clock of the database is that of the batch."""
        self.insert(db, number)
        db.drain()

    def insert(self, db: ms.Database, number: int, *, message_ids: bool = False) -> None:
        """Insert a batch, with epochs in between.

        With message ids it may be inserted again after a kill, and adds what is missing.
        """
        chance = random.Random(f"{self.seed}-{number}")
        tables = self.batch(number)
        for kind in chance.sample(KINDS, len(KINDS)):
            ids = [f"{number}-{row}" for row in range(tables[kind].num_rows)] if message_ids else None
            db.insert(kind, tables[kind], message_ids=ids)
            if chance.random() < 0.4:
                db.drain()

    def rows(self, batches: int, counts: dict[str, int] | None = None) -> dict[str, pa.Table]:
        """What the first batches hold, for the oracle; with `counts`, only so many rows of each stream."""
        sent: dict[str, list[pa.Table]] = {kind: [] for kind in KINDS}
        for number in range(batches):
            for kind, table in self.batch(number).items():
                arrived_at = pa.array([self.clock(number).now()] * table.num_rows, pa.int64()).cast(TIMESTAMP)
                sent[kind].append(table.append_column("arrived_at", arrived_at) if kind == "bid" else table)
        tables = {kind: pa.concat_tables(parts) for kind, parts in sent.items()}
        return tables if counts is None else {kind: table.slice(0, counts[kind]) for kind, table in tables.items()}
