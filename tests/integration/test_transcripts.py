"""Apache Beam's trigger transcripts, run through the engine.

How a transcript is read:

- An element is its own event time in seconds; `values` is the `collect_list` of a pane.
- One `input` step is one epoch. A `watermark: n` step is an event of another key at n + slack, in
  an epoch of its own. The slack is so large that inputs do not move the watermark.
- Beam's window `[0, 9]` names its last instant; here it is `[0, 10)`.
- `Default` fires at the watermark and then for every late element. Unlimited lateness is written
  as a very long one.
- `index` is the pane index; `nonspeculative_index` counts without the early panes.
- A session that grows or is merged is another window: the `delete` of what was published for its parts comes
  before the pane of the whole, in the same epoch, and is checked here rather than in the transcripts.
- `state` cannot be seen from outside, but its effect can: when the watermark closes all windows,
  a window that still holds elements publishes them, and one that holds nothing stays silent.

The order of panes within a step does not matter. A pane that is expected but does not come is
`unmatched output`, a pane that comes but is not expected before the next step or at the end is
`unexpected output`. Some transcripts are wrong on purpose and name which of the two it must be.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
import yaml

import millstream as ms
from millstream.model.settings import Kernel
from tests.conftest import Connect

TRANSCRIPTS = Path(__file__).parents[1] / "data" / "conformance" / "trigger_transcripts.yaml"
ORIGIN = datetime(1970, 1, 1)
SLACK = 100_000
UNLIMITED = " ALLOWED LATENESS INTERVAL 3650 DAYS"


class TranscriptError(AssertionError):
    """The engine and the transcript do not agree."""


def load() -> list[Any]:
    return [pytest.param(spec, id=spec["name"]) for spec in yaml.safe_load_all(TRANSCRIPTS.read_text())]


@pytest.mark.parametrize(
    ("restarts", "kernels"),
    [(False, ("native",)), (False, ("spark",)), (True, ("native", "spark"))],
    ids=["one-run", "spark-sql", "restarts"],
)
@pytest.mark.parametrize("spec", load())
def test_transcript(spec: dict[str, Any], restarts: bool, kernels: tuple[Kernel, ...], connect: Connect) -> None:
    clock, turns = ms.ManualClock(0), cycle(kernels)
    transcript = Transcript(
        spec, lambda: connect(clock=clock, settings=ms.EngineSettings(kernel=next(turns))), restarts
    )
    if "error" in spec:
        with pytest.raises(TranscriptError, match=f"^{spec['error']}"):
            transcript.run()
    else:
        transcript.run()


def test_the_file_holds_what_the_runner_is_for() -> None:
    names = {param.id for param in load()}
    assert "early_late_sessions" in names
    assert {"fixed_default", "fixed_default_late_data", "discarding_early_fixed", "garbage_collection"} <= names
    assert {"bad_output", "bad_expected_values", "bad_expected_window", "missing_output"} <= names


@dataclass
class Transcript:
    spec: dict[str, Any]
    connect: Callable[[], ms.Database]
    restarts: bool
    """Whether the database is closed and opened again before every step."""
    db: ms.Database = field(init=False)
    seen: int = 0
    """How many changes have been read."""
    pending: list[dict[str, Any]] = field(default_factory=list)
    """Panes that no `expect` has asked for yet."""
    nonspeculative: dict[datetime, int] = field(default_factory=dict)
    published: dict[tuple[datetime, datetime], list[int]] = field(default_factory=dict)
    """The windows that the changelog says there are, with their values."""

    def run(self) -> None:
        self.db = self.connect()
        self.db.sql(
            "CREATE STREAM elements (k STRING, v BIGINT, ts TIMESTAMP, "
            f"WATERMARK FOR ts AS ts - INTERVAL {SLACK} SECONDS)"
        )
        self.db.sql(
            "CREATE MATERIALIZED VIEW panes AS SELECT window_start, window_end, k, collect_list(v) AS vs "
            f"FROM {_windows(self.spec)} GROUP BY window_start, window_end, k "
            f"{_emit(self.spec)}"
        )
        for step in self.spec["transcript"]:
            ((action, argument),) = step.items()
            if action == "expect":
                self._expect(argument)
                continue
            self._nothing_pending(step)
            if self.restarts:
                self.db.close()
                self.db = self.connect()
            match action:
                case "input":
                    self._epoch([("element", at) for at in argument])
                case "watermark":
                    self._epoch([("watermark", argument + SLACK)])
                case "state":
                    self._close_all(argument)
                case _:
                    raise TranscriptError(f"unknown step {action}")
        self._nothing_pending("the end")

    def _epoch(self, events: list[tuple[str, int]]) -> None:
        before = self.db.drain()
        self.db.insert("elements", [{"k": key, "v": at, "ts": ORIGIN + timedelta(seconds=at)} for key, at in events])
        assert self.db.drain() == before + 1, "a step is one epoch"
        changes = self.db.changes("panes").rows()
        deleted = []
        for change in changes[self.seen :]:
            if change["k"] != "element":
                continue
            bounds = (change["window_start"], change["window_end"])
            if change["op"] == "delete":
                if self.published.pop(bounds, None) != change["vs"]:
                    raise TranscriptError(f"unexpected output: a deletion of what was not there: {change}")
                deleted.append(bounds)
                continue
            # A retraction would be output that no transcript here knows.
            self.pending.append(self._pane(change))
            self.published[bounds] = change["vs"]
            deleted = [old for old in deleted if not (bounds[0] <= old[0] and old[1] <= bounds[1])]
        if deleted:
            raise TranscriptError(f"unexpected output: {deleted} were deleted, but nothing holds them now")
        self.seen = len(changes)

    def _pane(self, change: dict[str, Any]) -> dict[str, Any]:
        start, end = change["window_start"], change["window_end"]
        pane = {
            "op": change["op"],
            "window": [_seconds(start), _seconds(end) - 1],
            "values": sorted(change["vs"]),
            "index": change["pane_index"],
            "early": change["pane"] == "early",
            "late": change["pane"] == "late",
            "final": change["final"],
        }
        if not pane["early"]:
            pane["nonspeculative_index"] = self.nonspeculative.get(start, 0)
            self.nonspeculative[start] = pane["nonspeculative_index"] + 1
        return pane

    def _expect(self, panes: list[dict[str, Any]]) -> None:
        op = "insert" if self.spec.get("accumulation_mode") == "discarding" else "upsert"
        for expected in panes:
            wanted = {"op": op, **expected}
            found = next((pane for pane in self.pending if all(pane.get(k) == v for k, v in wanted.items())), None)
            if found is None:
                raise TranscriptError(f"unmatched output: {expected} is not among {self.pending}")
            self.pending.remove(found)

    def _nothing_pending(self, where: object) -> None:
        if self.pending:
            raise TranscriptError(f"unexpected output: {self.pending} before {where}")

    def _close_all(self, state: dict[str, list[list[int]]]) -> None:
        self._epoch([("watermark", 2 * SLACK)])
        holding = [pane["window"] for pane in self.pending if pane["values"]]
        for window in state.get("present", ()):
            if window not in holding:
                raise TranscriptError(f"unmatched output: {window} holds nothing, only {holding} do")
        for window in state.get("absent", ()):
            if window in holding:
                raise TranscriptError(f"unexpected output: {window} still holds elements")
        self.pending.clear()


def _windows(spec: dict[str, Any]) -> str:
    said = re.fullmatch(r"(\w+)\((\d+)\)", spec["window"])
    assert said is not None
    kind, seconds = said.groups()
    interval = f"INTERVAL {seconds} SECONDS"
    match kind:
        case "FixedWindows":
            return f"TUMBLE(elements, ts, {interval})"
        case "Sessions":
            return f"SESSION(elements PARTITION BY k, ts, {interval})"
        case _:
            raise TranscriptError(f"unknown windows {kind}")


def _emit(spec: dict[str, Any]) -> str:
    trigger = spec["trigger"]
    lateness = f" ALLOWED LATENESS INTERVAL {spec['allowed_lateness']} SECONDS" if "allowed_lateness" in spec else ""
    mode = spec.get("accumulation_mode", "accumulating").upper()
    if trigger == "Default":
        return f"EMIT ON WATERMARK LATE EVERY 1 ROW {mode}{lateness or UNLIMITED}"
    if count := re.fullmatch(r"AfterCount\((\d+)\)", trigger):
        return f"EMIT EVERY {count[1]} ROWS {mode}{lateness}"
    if parts := re.fullmatch(r"AfterWatermark\((.*)\)", trigger):
        rates = dict(re.findall(r"(early|late)=AfterCount\((\d+)\)", parts[1]))
        early = f"EARLY EVERY {rates['early']} ROWS " if "early" in rates else ""
        late = f" LATE EVERY {rates['late']} ROWS" if "late" in rates else ""
        return f"EMIT {early}ON WATERMARK{late} {mode}{lateness or (UNLIMITED if late else '')}"
    raise TranscriptError(f"unknown trigger {trigger}")


def _seconds(instant: datetime) -> int:
    return round((instant - ORIGIN).total_seconds())
