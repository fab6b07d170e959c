"""EXPLAIN: for every part of a view, where it runs, what it keeps, what bounds that."""

from __future__ import annotations

from millstream.model.time import format_duration
from millstream.plan.explain_windows import explain_keyed_state, explain_pane, explain_window
from millstream.plan.nodes import AggregateView, AppendView, Stream, Trigger, View
from millstream.plan.windows import KeyedWindow
from millstream.sql.statements import EveryInterval, EveryRows, Rate


def explain_view(view: View, stream: Stream) -> list[str]:
    """The plan as indented lines, the last step first."""
    lines = [f"view {view.name}"]
    if isinstance(view, AggregateView):
        lines += _explain_aggregate(view, stream)
    else:
        lines += _explain_append(view, stream)
    if view.retain is not None:
        lines.append(f"  retains: {format_duration(view.retain)} behind the watermark, then deletes")
    lines.append("  on Spark, one job per epoch over the new rows")
    if isinstance(view, AggregateView):
        pane = [] if view.window is None else [explain_pane(view.window)]
        by = ", ".join([*(key.sql for key in view.keys), *pane]) or "nothing"
        lines.append(f"    partial aggregate by {by}: {len(view.kept)} accumulators")
        if view.window is not None:
            lines.append(f"    window: {explain_window(view.window)}")
    else:
        lines.append(f"    project {len(view.columns)} columns")
    if view.filter is not None:
        lines.append(f"    filter: {view.filter}")
    lines.append(f"    decode and scan: stream {stream.name}{_watermark(stream)}")
    return lines


def _explain_aggregate(view: AggregateView, stream: Stream) -> list[str]:
    lines = [f"  emits: {_trigger(view.trigger)}, {view.trigger.accumulation}"]
    lines.append("  in the store, in the epoch's transaction")
    if view.having is not None:
        lines.append(f"    having: {view.having}")
    lines.append(f"    merge deltas into state by {', '.join(k.sql for k in view.keys) or 'one group'}")
    bound = explain_keyed_state(view) if isinstance(view.window, KeyedWindow) else _bound(view)
    lines.append(f"    state: {bound}")
    if view.windows_close:
        lines.append(
            "    late: none, the windows are on processing time"
            if view.on_clock
            else "    late: rows whose windows all ended "
            f"{format_duration(view.lateness) + ' ' if view.lateness else ''}before the watermark go to "
            f"{stream.name}__late"
        )
    return lines


def _explain_append(view: AppendView, stream: Stream) -> list[str]:
    bound = "unbounded: every row is kept" if view.retain is None else "bounded by retain"
    return ["  emits: each row once, in its epoch", "  in the store: append", f"    state: {bound}"]


def _bound(view: AggregateView) -> str:
    if view.window is None:
        return "one row per group, unbounded: grows with the number of groups"
    if not view.windows_close:
        return "one row per group and window, unbounded: the windows are not on the event time of the stream"
    live = view.trigger.is_live and view.trigger.accumulation != "discarding"
    if live and view.retain is None:
        return "one row per group and window, kept as the contents of the view (bound it with retain)"
    kept = f", kept {format_duration(view.lateness)} longer for late rows" if view.lateness else ""
    closed = "the clock" if view.on_clock else "the watermark of the stream"
    return f"one row per group and open window; closed by {closed}{kept}"


def _trigger(trigger: Trigger) -> str:
    if trigger.repeatedly is not None:
        return _rate(trigger.repeatedly)
    early = f"early {_rate(trigger.early)}, " if trigger.early else ""
    late = f", late {_rate(trigger.late)}" if trigger.late else ""
    return f"{early}on watermark{late}"


def _rate(rate: Rate) -> str:
    match rate:
        case EveryRows(count):
            return f"every {count} rows"
        case EveryInterval(micros):
            return f"every {format_duration(micros)}"
        case _:
            return "on epoch"


def _watermark(stream: Stream) -> str:
    if stream.watermark is None:
        return ", no event time"
    return f", watermark {format_duration(stream.slack)} behind {stream.watermark.column}"
