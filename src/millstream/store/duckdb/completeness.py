"""How complete windows were when they fired: rows that had arrived, and rows that came later.

Owns `ms.completeness`: per view and window, the rows that came in an epoch that began before the
watermark reached the end of the window, and those that came after. The epoch that fires a window is among the
former, since its rows are in the on-time firing. What always holds: the sums are exact. An epoch adds
rows of its own; now and then those of a window are gathered, and windows that fired long ago are added
up in one row per view without a window.
"""

from __future__ import annotations

from collections.abc import Sequence

import duckdb
import numpy as np
import pyarrow as pa

from millstream.model.progress import Completeness
from millstream.plan.nodes import View
from millstream.plan.windows import Window
from millstream.store.commands import ViewPart
from millstream.store.duckdb.moment import Moment
from millstream.store.duckdb.writing import Writing

COMPLETENESS = """
CREATE TABLE IF NOT EXISTS ms.completeness (
    view VARCHAR, window_start BIGINT, on_time BIGINT, later BIGINT);
"""

_ARRIVED = "__arrived"
# How many windows that fired a view has a row of its own for, at least.
_RECENT = 100
# How many epochs go by before the rows of the table are gathered.
_EPOCHS = 64


def count_arrivals(
    connection: duckdb.DuckDBPyConnection, parts: Sequence[ViewPart], at: Moment, writing: Writing
) -> None:
    """Add the rows of an epoch, of all views at once, to the windows they belong to."""
    arrived = [_placed(part) for part in parts if part.arrived is not None]
    if arrived:
        # Only added here: to find the row of each window would cost several times as much.
        statements = writing.of(_ARRIVED, at)
        with statements.handed(pa.concat_tables(arrived)) as rows:
            statements.execute(f"INSERT INTO ms.completeness SELECT * FROM {rows}")
    if at.epoch % _EPOCHS == 0:
        _gather(connection, parts)


def _gather(connection: duckdb.DuckDBPyConnection, parts: Sequence[ViewPart]) -> None:
    """One row per view and window again, and one for all that is old."""
    connection.execute(
        "CREATE OR REPLACE TEMP TABLE __sums AS "
        "SELECT view, window_start, sum(on_time), sum(later) FROM ms.completeness GROUP BY view, window_start"
    )
    connection.execute("DELETE FROM ms.completeness")
    connection.execute("INSERT INTO ms.completeness SELECT * FROM __sums")
    connection.execute("DROP TABLE __sums")
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
    assert isinstance(view.window, Window)
    fired = f"view = ? AND coalesce(window_start + {view.window.size} <= {watermark}, true)"
    row = connection.execute(
        f"""
        SELECT CAST(sum(on_time) AS BIGINT), CAST(sum(later) AS BIGINT),
               CAST(last(on_time ORDER BY window_start NULLS FIRST) AS BIGINT),
               CAST(last(later ORDER BY window_start NULLS FIRST) AS BIGINT)
        FROM (SELECT window_start, sum(on_time) AS on_time, sum(later) AS later
              FROM ms.completeness WHERE {fired} GROUP BY window_start)
        """,
        [view.name],
    ).fetchall()[0]
    return None if row[0] is None else Completeness(*row)


def _placed(part: ViewPart) -> pa.Table:
    """Panes spread over their windows, as rows of the table."""
    window, arrived = part.view.window, part.arrived
    assert isinstance(window, Window)
    assert arrived is not None
    panes = arrived.column("pane").to_numpy()
    hops = np.arange(-(-window.size // window.slide)) * window.slide
    starts = window.newest_start(panes)[:, np.newaxis] - hops
    holds = starts > (panes - window.size)[:, np.newaxis]
    rows = np.broadcast_to(arrived.column("rows").to_numpy()[:, np.newaxis], starts.shape)[holds]
    starts = starts[holds]
    in_time = starts + window.size > part.before
    return pa.table(
        {
            "view": pa.repeat(part.view.name, len(starts)),
            "window_start": starts,
            "on_time": np.where(in_time, rows, 0),
            "later": np.where(in_time, 0, rows),
        }
    )


def _add_up(connection: duckdb.DuckDBPyConnection, part: ViewPart) -> None:
    """Put all but the recent windows that fired into one row.

    A row that comes later still for one of them makes a row of its own, which is old enough to be
    added up the next time.
    """
    assert isinstance(part.view.window, Window)
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
