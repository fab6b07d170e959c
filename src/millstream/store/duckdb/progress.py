"""How far streams and views have come, in `ms.progress` and in memory, so that planning an epoch asks no query.

What always holds: memory has what was last committed. A transaction saves first; `note` follows its commit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Literal

import duckdb

from millstream.model.lateness import Lateness
from millstream.model.progress import BEGINNING, Progress

Kind = Literal["stream", "view"]


class KnownProgress:
    """Of a stream its own progress; of a part of a view that reads history where it is."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        rows = connection.execute("SELECT name, kind, state FROM ms.progress").fetchall()
        self._known: dict[tuple[str, str], Progress] = {(name, kind): _read(text) for name, kind, text in rows}

    def stream(self, name: str) -> Progress | None:
        return self._known.get((name, "stream"))

    def view(self, name: str) -> Progress | None:
        return self._known.get((name, "view"))

    def behind(self) -> dict[str, Progress]:
        """The parts of views that read history."""
        return {name: progress for (name, kind), progress in list(self._known.items()) if kind == "view"}

    def save(self, txn: duckdb.DuckDBPyConnection, name: str, kind: Kind, progress: Progress | None) -> None:
        known = self._known.get((name, kind))
        if progress == known:
            return
        if progress is None:
            txn.execute("DELETE FROM ms.progress WHERE name = ? AND kind = ?", [name, kind])
        elif known is None:
            txn.execute("INSERT INTO ms.progress VALUES (?, ?, ?)", [name, kind, _text(progress)])
        else:
            txn.execute("UPDATE ms.progress SET state = ? WHERE name = ? AND kind = ?", [_text(progress), name, kind])

    def save_new(self, txn: duckdb.DuckDBPyConnection, view: str, progress: Progress | None) -> None:
        """Save where a new view begins, whatever is known of one that it takes the place of."""
        txn.execute("DELETE FROM ms.progress WHERE name = ? AND kind = 'view'", [view])
        if progress is not None:
            txn.execute("INSERT INTO ms.progress VALUES (?, 'view', ?)", [view, _text(progress)])

    def note(self, name: str, kind: Kind, progress: Progress | None) -> None:
        """Remember what has been committed."""
        if progress is None:
            self._known.pop((name, kind), None)
        else:
            self._known[name, kind] = progress


def _text(progress: Progress) -> str:
    # Not `asdict`, which copies one by one what may be thousands of counts.
    state = {field.name: getattr(progress, field.name) for field in fields(progress)}
    if progress.lateness is not None:
        state["lateness"] = {"recent": progress.lateness.recent, "earlier": progress.lateness.earlier}
    return json.dumps(state)


def _read(text: str) -> Progress:
    state = json.loads(text)
    by_partition = {key: _by_number(state[key]) for key in ("offsets", "newest", "active_at")}
    seen = state.get("lateness")
    lateness = Lateness(*(_by_number(seen[key]) for key in ("recent", "earlier"))) if seen else None
    return Progress(
        watermark=state["watermark"], clock=state.get("clock", BEGINNING), lateness=lateness, **by_partition
    )


def _by_number(values: Mapping[str, int]) -> dict[int, int]:
    """JSON has no numbers for keys."""
    return {int(number): value for number, value in values.items()}
