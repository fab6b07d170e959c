"""How complete windows were when they fired: rows that had arrived, and rows that came later.

Owns `ms.completeness`: per view and window, the rows that came in an epoch that began before the
watermark reached the end of the window, and those that came after. The epoch that fires a window is among the
former, since its rows are in the on-time firing. What always holds: the sums are exact. Windows that
fired long ago are added up in one row per view without a window.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import duckdb
import numpy as np
import pyarrow as pa

from millstream.plan.nodes import View
from millstream.store.protocol import ViewPart

COMPLETENESS = """
CREATE TABLE IF NOT EXISTS ms.completeness (
    view VARCHAR, window_start BIGINT, on_time BIGINT, later BIGINT);
"""

_ARRIVED = "__arrived"
# How many windows that fired a view has a row of its own for, at least.
_RECENT = 100


@dataclass(frozen=True, slots=True)
class Completeness:
    """Rows of windows that fired: those that were there, and those that came later as far as is known."""

    on_time: int
    later: int
    last_on_time: int
    last_later: int
    """The same of the last window that fired."""


def count_arrivals(connection: duckdb.DuckDBPyConnection, parts: Sequence[ViewPart]) -> None:
    """Add the rows of an epoch, of all views at once, to the windows they belong to."""
    arrived = [_placed(part) for part in parts if part.arrived is not None]
    if not arrived:
        return
    connection.register(_ARRIVED, pa.concat_tables(arrived))
    connection.execute(
        f"""
        MERGE INTO ms.completeness c USING (
            SELECT view, window_start,
                   CAST(coalesce(sum(rows) FILTER (WHERE window_start + size > before), 0) AS BIGINT) AS on_time,
                   CAST(coalesce(sum(rows) FILTER (WHERE window_start + size <= before), 0) AS BIGINT) AS later
            FROM (SELECT *, unnest(range(newest, pane - size, -slide)) AS window_start FROM {_ARRIVED})
            GROUP BY view, window_start
        ) a ON c.view = a.view AND c.window_start = a.window_start
        WHEN MATCHED THEN UPDATE SET on_time = c.on_time + a.on_time, later = c.later + a.later
        WHEN NOT MATCHED THEN INSERT VALUES (a.view, a.window_start, a.on_time, a.later)
        """
    )
    connection.unregister(_ARRIVED)
    counted = connection.execute(
        f"SELECT view FROM ms.completeness GROUP BY view HAVING count(*) > {2 * _RECENT}"
    ).fetchall()
    many = {name for (name,) in counted}
    for part in parts:
        if part.view.name in many:
            _add_up(connection, part)


def forget_completeness(connection: duckdb.DuckDBPyConnection, view: str) -> None:
    connection.execute("DELETE FROM ms.completeness WHERE view = ?", [view])


def read_completeness(connection: duckdb.DuckDBPyConnection, view: View, watermark: int) -> Completeness | None:
    """What is known of the windows that the watermark has passed; None if there is none."""
    assert view.window is not None
    fired = f"view = ? AND coalesce(window_start + {view.window.size} <= {watermark}, true)"
    row = connection.execute(
        f"""
        SELECT CAST(sum(on_time) AS BIGINT), CAST(sum(later) AS BIGINT),
               last(on_time ORDER BY window_start NULLS FIRST), last(later ORDER BY window_start NULLS FIRST)
        FROM ms.completeness WHERE {fired}
        """,
        [view.name],
    ).fetchall()[0]
    return None if row[0] is None else Completeness(*row)


def _placed(part: ViewPart) -> pa.Table:
    """Panes with all that is needed to spread them over their windows."""
    window, rows = part.view.window, part.arrived
    assert window is not None
    assert rows is not None
    panes = rows.column("pane").to_numpy()
    same = {"size": window.size, "slide": window.slide, "before": part.before}
    columns = {name: np.full(len(panes), value, np.int64) for name, value in same.items()}
    return pa.table(
        {
            "view": pa.repeat(part.view.name, len(panes)),
            "pane": panes,
            "rows": rows.column("rows"),
            "newest": window.newest_start(panes),
            **columns,
        }
    )


def _add_up(connection: duckdb.DuckDBPyConnection, part: ViewPart) -> None:
    """Put all but the recent windows that fired into one row.

    A row that comes later still for one of them makes a row of its own, which is old enough to be
    added up the next time.
    """
    assert part.view.window is not None
    name = part.view.name
    bound = connection.execute(
        f"SELECT window_start FROM ms.completeness WHERE view = ? AND window_start + {part.view.window.size} <= ? "
        f"ORDER BY window_start DESC LIMIT 1 OFFSET {_RECENT}",
        [name, part.after],
    ).fetchall()
    if not bound:
        return
    gone = connection.execute(
        "DELETE FROM ms.completeness WHERE view = ? AND coalesce(window_start <= ?, true) RETURNING on_time, later",
        [name, bound[0][0]],
    ).fetchall()
    connection.execute(
        "INSERT INTO ms.completeness VALUES (?, NULL, ?, ?)",
        [name, sum(on_time for on_time, _ in gone), sum(later for _, later in gone)],
    )
