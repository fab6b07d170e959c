"""The parts of a database, all of them open: what `running` and `upkeep` work with.

Owns nothing but their order of closing. `engine.surface.opening` opens them.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

from millstream.engine.define.catalog import Catalog
from millstream.engine.define.definitions import Definitions
from millstream.engine.define.functions import Functions
from millstream.engine.define.replacing import Replacing
from millstream.engine.define.sinks import Sinks
from millstream.engine.run.backfill import History
from millstream.engine.run.delivery import Delivery
from millstream.engine.run.epochs import EpochLoop
from millstream.log import Log
from millstream.model.settings import EngineSettings
from millstream.model.time import Clock
from millstream.plan.compute import Compute
from millstream.store.protocol import Store


@dataclass(frozen=True, slots=True)
class Parts:
    """What a database consists of, all of it open."""

    directory: Path
    clock: Clock
    settings: EngineSettings
    catalog: Catalog
    log: Log
    store: Store
    compute: Compute
    functions: Functions
    definitions: Definitions
    loop: EpochLoop
    replacing: Replacing
    history: History
    sinks: Sinks
    delivery: Delivery
    _held: contextlib.ExitStack

    def close(self) -> None:
        """Let go of everything, after the epoch under way."""
        with self.loop.lock:
            self._held.close()
