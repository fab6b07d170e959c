"""The load of a soak: rows, connections and subscriptions that come and go, until they are told to stop.

Owns what runs during a soak. What always holds: every stream has a retention and every view bounds its state, so
nothing of this may grow without end. Must not measure anything.
"""

from __future__ import annotations

import json
import random
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pyarrow as pa

import millstream as ms

_KEEP = "45 seconds"
_STEP_SECONDS = 0.25
_AUCTIONS = 500

_DEFINITIONS = f"""
SET target_latency = '500 ms';
CREATE STREAM bids (
  auction BIGINT, bidder BIGINT, price DECIMAL(12, 2), ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL 1 SECOND
) WITH (
  partitions = 2, key = 'auction', retention = '{_KEEP}', message_id_window = '{_KEEP}', letters_retain = '{_KEEP}');
CREATE STREAM sales (
  auction BIGINT, buyer STRING, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL 1 SECOND
) WITH (retention = '{_KEEP}', letters_retain = '{_KEEP}');
CREATE STREAM sensors (
  id BIGINT, celsius DOUBLE, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL 1 SECOND
) WITH (source = 'socket', listen = TRUE, port = {{port}}, retention = '{_KEEP}', letters_retain = '{_KEEP}');
CREATE MATERIALIZED VIEW windows WITH (retain = '{_KEEP}', changelog_retain = '{_KEEP}') AS
  SELECT window_start, window_end, auction, count(*) AS n, sum(price) AS total
  FROM TUMBLE(bids, ts, INTERVAL 5 SECONDS) GROUP BY window_start, window_end, auction EMIT ON WATERMARK;
CREATE MATERIALIZED VIEW hops WITH (retain = '{_KEEP}', changelog_retain = '{_KEEP}') AS
  SELECT window_start, count(*) AS n, max(price) AS top
  FROM HOP(bids, ts, INTERVAL 2 SECONDS, INTERVAL 10 SECONDS) GROUP BY window_start;
CREATE MATERIALIZED VIEW best WITH (changelog_retain = '{_KEEP}') AS
  SELECT auction, bidder, price, n FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC) AS n FROM bids) WHERE n <= 3;
CREATE MATERIALIZED VIEW matched WITH (retain = '{_KEEP}', changelog_retain = '{_KEEP}') AS
  SELECT b.auction, b.price, s.buyer, b.ts FROM bids b JOIN sales s
  ON b.auction = s.auction AND s.ts BETWEEN b.ts - INTERVAL 2 SECONDS AND b.ts + INTERVAL 2 SECONDS;
CREATE MATERIALIZED VIEW warm WITH (retain = '{_KEEP}', changelog_retain = '{_KEEP}') AS
  SELECT window_start, id, avg(celsius) AS mean FROM TUMBLE(sensors, ts, INTERVAL 5 SECONDS) GROUP BY window_start, id;
CREATE SINK out FROM hops WITH (connector = 'topic', topic = 'hops_out', retention = '{_KEEP}');
"""


@dataclass(slots=True)
class Load:
    """Threads that keep a database busy."""

    db: ms.Database
    rate: int
    """Bids per second."""
    port: int = field(init=False)
    errors: list[BaseException] = field(init=False, default_factory=list)
    rows: int = field(init=False, default=0)
    _stopping: threading.Event = field(init=False, default_factory=threading.Event)
    _threads: list[threading.Thread] = field(init=False, default_factory=list)

    def start(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.db.sql(_DEFINITIONS.format(port=self.port))
        self.db.start()
        for work in (self._bid, self._sell, self._connect, self._subscribe, self._query):
            thread = threading.Thread(target=self._repeat, args=(work,), daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()
        self.db.stop()

    def _repeat(self, work: Callable[[int], None]) -> None:
        count = 0
        due = time.monotonic()
        try:
            while not self._stopping.is_set():
                work(count)
                count += 1
                due = max(due + _STEP_SECONDS, time.monotonic() - _STEP_SECONDS)
                self._stopping.wait(max(0.0, due - time.monotonic()))
        except Exception as error:
            self.errors.append(error)

    def _bid(self, step: int) -> None:
        chance = random.Random(step)
        count = max(1, int(self.rate * _STEP_SECONDS))
        now = datetime.now(UTC).replace(tzinfo=None)
        rows = pa.table(
            {
                "auction": [chance.randrange(_AUCTIONS) for _ in range(count)],
                "bidder": [chance.randrange(10_000) for _ in range(count)],
                "price": [chance.randrange(1, 100_000) / 100 for _ in range(count)],
                "ts": [now] * count,
            }
        )
        # A producer that sends every fourth batch twice.
        ids = [f"{step}/{number}" for number in range(count)]
        for _ in range(2 if step % 4 == 0 else 1):
            self.rows += self.db.insert("bids", rows, message_ids=ids) or 0

    def _sell(self, step: int) -> None:
        now = datetime.now(UTC).replace(tzinfo=None)
        self.db.insert("sales", [{"auction": step % _AUCTIONS, "buyer": f"b{step % 100}", "ts": now}])

    def _connect(self, step: int) -> None:
        """A connection that sends some lines, one of them malformed, and ends, sometimes in the middle of a line."""
        at = datetime.now(UTC).isoformat()
        lines = [json.dumps({"ID": step % 50, "celsius": step % 30 + 0.5, "ts": at}) for _ in range(20)]
        text = "\n".join([*lines, '{"id": "broken"}', "" if step % 3 else '{"id'])
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as client:
            client.sendall(text.encode())

    def _subscribe(self, step: int) -> None:
        """A subscriber that takes a few changes and leaves."""
        view = ("windows", "hops", "best", "matched")[step % 4]
        changes = self.db.subscribe(view, from_epoch=max(0, self.db.status()["epoch"] - 2))
        patience = threading.Timer(1.0, changes.close)
        patience.start()
        for taken, _ in enumerate(changes):
            if taken >= 50:
                break
        changes.close()
        patience.cancel()
        patience.join()

    def _query(self, step: int) -> None:
        self.db.query(
            "SELECT auction, max(price) AS top FROM best GROUP BY auction ORDER BY top DESC LIMIT ?", [5]
        ).rows()
