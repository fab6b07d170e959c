"""What became of the rows of an epoch: used, filtered out, late or failed, and nothing else.

Lateness is judged here, where the watermark before the epoch is known. What always holds: per view,
decoded rows = used + filtered out + late + failed. Must not run anything: a delta goes in, a verdict
comes out, and the rows that it sets aside are fetched by `letters`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from millstream.model.errors import MillstreamError
from millstream.model.progress import BEGINNING
from millstream.plan.compute import ViewDelta
from millstream.plan.nodes import AggregateView, View
from millstream.plan.windows import CountWindow, Window
from millstream.store.commands import ViewPart


def judge(plan: View, delta: ViewDelta, decoded: int, before: int, after: int) -> ViewPart:
    """Split a delta into used and late rows, and check that all `decoded` rows are accounted for."""
    rows, late = split_late(plan, delta.rows, before)
    part = ViewPart(
        plan,
        rows,
        before,
        after,
        delta.repeats,
        used=delta.used - late,
        filtered=delta.filtered,
        late=late,
        failed=delta.failed,
        arrived=arrived(plan, delta.rows),
    )
    if part.used + part.filtered + part.late + part.failed != decoded:
        raise MillstreamError(
            "ACCOUNTING",
            f"view {plan.name}: {decoded} rows decoded, but {part.used} used, {part.filtered} filtered, "
            f"{part.late} late and {part.failed} failed",
            hint="this is a defect in Millstream; nothing was committed",
        )
    return part


def split_late(plan: View, rows: pa.Table, before: int) -> tuple[pa.Table, int]:
    """Take what is late out of a delta: (the rest, how many rows are late)."""
    late = None if before == BEGINNING or rows.num_rows == 0 else _is_late(plan, rows, before)
    if late is None or not late.any():
        return rows, 0
    return rows.filter(pa.array(~late)), int(_counts(plan, rows)[late].sum())


def _is_late(plan: View, rows: pa.Table, before: int) -> Any:
    """Which rows of a delta no open window holds, or no partner can reach; None if rows are never late."""
    horizon = None if isinstance(plan, AggregateView) else plan.horizon
    if horizon is not None:
        return None if horizon.late_after is None else rows.column("__t").to_numpy() + horizon.late_after <= before
    window = plan.window
    # On processing time no row is late, and no time closes a count window.
    if window is None or not plan.windows_close or window.on_clock or isinstance(window, CountWindow):
        return None
    return window.complete_at(lambda name: rows.column(name).to_numpy()) + plan.lateness <= before


def arrived(plan: View, rows: pa.Table) -> pa.Table | None:
    """How many rows a delta has of each pane (`pane`, `rows`), where fixed windows close and so may miss some."""
    window = plan.window
    if not isinstance(window, Window) or window.on_clock or not plan.windows_close or rows.num_rows == 0:
        return None
    panes, index = np.unique(rows.column("__pane").to_numpy(), return_inverse=True)
    totals = np.zeros(len(panes), np.int64)
    np.add.at(totals, index, _counts(plan, rows))
    return pa.table({"pane": panes, "rows": totals})


def _counts(plan: View, rows: pa.Table) -> np.ndarray[Any, np.dtype[np.int64]]:
    """How many rows of the stream each row of a delta stands for."""
    if isinstance(plan, AggregateView):
        counts: np.ndarray[Any, np.dtype[np.int64]] = rows.column("__rows").to_numpy()
        return counts
    return np.ones(rows.num_rows, np.int64)
