"""Who keeps which part of a view: the one table of the classes that own state in the store."""

from __future__ import annotations

import pyarrow as pa

from millstream.plan.nodes import AggregateView, AppendView, Part, QueryView, TopView, View
from millstream.plan.windows import CountWindow, SessionWindow, SlideWindow
from millstream.store.duckdb.aggregate import LiveAggregate
from millstream.store.duckdb.append import Append
from millstream.store.duckdb.counts import CountAggregate
from millstream.store.duckdb.query import QueryMaintainer
from millstream.store.duckdb.sessions import SessionAggregate
from millstream.store.duckdb.slides import SlideAggregate
from millstream.store.duckdb.top import TopRows
from millstream.store.duckdb.triggered import TriggeredAggregate
from millstream.store.duckdb.writing import Statements

Aggregate = LiveAggregate | TriggeredAggregate | SessionAggregate | SlideAggregate | CountAggregate
Maintainer = Aggregate | Append | TopRows


def maintainer(view: View) -> Maintainer:
    """Who keeps a part that Spark computes the delta of."""
    match view:
        case TopView():
            return TopRows(view)
        case AppendView():
            return Append(view)
    return _aggregate(view)


def maintainer_of(part: Part) -> Maintainer | QueryMaintainer:
    """Who keeps a part of a view."""
    return QueryMaintainer(part) if isinstance(part, QueryView) else maintainer(part)


def merge_delta(keeper: Maintainer, statements: Statements, delta: pa.Table | None, *, repeats: bool) -> None:
    """Let a keeper do what an epoch asks: merge a delta, if there is one, and fire what is due. Only aggregates over
    time or over all take a group in several rows."""
    match keeper:
        case LiveAggregate() | TriggeredAggregate():
            keeper.merge(statements, delta, repeats=repeats)
        case _:
            keeper.merge(statements, delta)


def _aggregate(view: AggregateView) -> Aggregate:
    match view.window:
        case SessionWindow():
            return SessionAggregate(view)
        case SlideWindow():
            return SlideAggregate(view)
        case CountWindow():
            return CountAggregate(view)
    live = view.trigger.is_live and view.trigger.accumulation != "discarding"
    return LiveAggregate(view) if live else TriggeredAggregate(view)
