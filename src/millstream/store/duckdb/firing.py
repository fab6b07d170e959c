"""When a window of a triggered view fires, as SQL over a row of its state.

Owns the meaning of EMIT: which pane (early, on time, late), if any, a row of the state publishes
now, and when a processing-time trigger is due. The state has `__pending` (rows since the last
firing), `__due` (when a processing-time trigger is due) and `__on_time` (whether the on-time pane
has fired). What a firing publishes is the maintainers' business.
"""

from __future__ import annotations

from collections.abc import Sequence

import duckdb

from millstream.plan.nodes import AggregateView
from millstream.sql.statements import EveryEpoch, EveryInterval, EveryRows, Rate
from millstream.store.duckdb.changelog import pane_of
from millstream.store.duckdb.moment import NAMED
from millstream.store.duckdb.writing import in_order

# What a firing says of its changes: pane, index, whether it is the last.
PANE = pane_of("__kind"), "__fired", "__final"
TRIGGER_COLUMNS = ", CAST(0 AS BIGINT) AS __pending, CAST(NULL AS BIGINT) AS __due, false AS __on_time"


def kind_sql(view: AggregateView, complete: str, closes: str) -> str:
    """Which pane, if any, a window fires that is complete and that closes at some instants."""
    trigger = view.trigger
    closing = f"{closes} <= {NAMED.after} AND __pending > 0" if view.windows_close else "false"
    if trigger.repeatedly is not None:
        before = f"IF({complete} <= {NAMED.before}, 'late', 'early')" if view.windows_close else "'early'"
        last = "'late'" if view.lateness else "'on_time'"
        # What no trigger has published when the window closes is published then.
        return f"CASE WHEN {_is_due(trigger.repeatedly)} THEN {before} WHEN {closing} THEN {last} END"
    cases = [f"WHEN NOT __on_time AND {complete} <= {NAMED.after} THEN 'on_time'"]
    if trigger.early is not None:
        cases.append(f"WHEN NOT __on_time AND {_is_due(trigger.early)} THEN 'early'")
    if trigger.late is not None:
        cases.append(f"WHEN __on_time AND {_is_due(trigger.late)} THEN 'late'")
    cases.append(f"WHEN __on_time AND {closing} THEN 'late'")
    return f"CASE {' '.join(cases)} END"


def due_sql(view: AggregateView, past: str, early: str = "NULL", late: str = "NULL") -> str:
    """When a window fires next if it fires by processing time, in the phase it is in.

    `past` says whether the watermark has passed it; `early` and `late` are when it was due already
    in either phase, NULL if it was not.
    """

    def instant(rate: Rate | None, already: str) -> str:
        if not isinstance(rate, EveryInterval):
            return "CAST(NULL AS BIGINT)"
        return f"coalesce({already}, {NAMED.now} + {rate.micros})"

    trigger = view.trigger
    if trigger.repeatedly is not None:
        return instant(trigger.repeatedly, f"least({early}, {late})" if early != "NULL" else "NULL")
    return f"IF({past}, {instant(trigger.late, late)}, {instant(trigger.early, early)})"


def note_fired(state: str, fired: str, same: str, published: str, more: Sequence[str]) -> str:
    """What notes in a state that windows have fired: the rows `f` of a relation. `same` says which row `s` of the state
    is theirs; not by its id, since the epoch itself may have written it (`store/duckdb/writing.py`). `published` says
    whether one has published anything; `more` is what else is set."""
    updates = [
        f"__fired = f.__fired + CAST({published} AS BIGINT)",
        "__pending = 0",
        "__due = NULL",
        "__on_time = s.__on_time OR f.__kind = 'on_time'",
        *more,
    ]
    source = in_order(fired, "__rid", "f")
    return f"UPDATE {state} AS s SET {', '.join(updates)} FROM {source} WHERE {same}"


def next_due_at(connection: duckdb.DuckDBPyConnection, view: AggregateView, state: str, complete: str) -> int | None:
    """When the next firing by processing time is due in a state, be it by its rate or because a window ends."""
    trigger = view.trigger
    dues = ["__due"] if trigger.intervals else []
    if view.on_clock and not (trigger.is_live and trigger.accumulation != "discarding"):
        waits = "NOT __on_time" if trigger.on_watermark else "__pending > 0"
        dues.append(f"IF({waits}, {complete}, NULL)")
    if not dues:
        return None
    rows: list[tuple[int | None]] = connection.execute(f"SELECT min(least({', '.join(dues)})) FROM {state}").fetchall()
    return rows[0][0]


def _is_due(rate: Rate) -> str:
    match rate:
        case EveryRows(count):
            return f"__pending >= {count}"
        case EveryInterval():
            return f"__due <= {NAMED.now}"
        case EveryEpoch():
            return "__pending > 0"
