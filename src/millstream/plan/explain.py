"""EXPLAIN: for every part of a view, where it runs, what it keeps, what bounds that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from millstream.model.time import format_duration
from millstream.plan.explain_windows import explain_keyed_state, explain_pane, explain_window
from millstream.plan.nodes import (
    AggregateView,
    AppendView,
    OuterRows,
    QueryView,
    Stream,
    Top,
    TopView,
    Trigger,
    View,
    ViewPlan,
)
from millstream.plan.windows import KeyedWindow
from millstream.sql.statements import EveryInterval, EveryRows, Rate

_METHODS = {
    "delta": "changes of each input joined with the others",
    "union": "changes of each input",
    "keyed": "computed again for the keys that changed",
    "whole": "computed again as a whole",
}


def explain_plan(
    plan: ViewPlan,
    streams: Mapping[str, Stream],
    slacks: Mapping[str, str | None] | None = None,
    kernels: Mapping[str, Sequence[str]] | None = None,
    kept_with: Mapping[str, Sequence[str]] | None = None,
) -> list[str]:
    """The parts of a view as indented lines, the view first.

    `slacks` says how far watermarks are behind now, `kernels` what computes the delta of each part, and `kept_with`
    what other views are merged together with it.
    """
    lines: list[str] = []
    for part in reversed(plan.parts):
        if isinstance(part, QueryView):
            lines += _explain_query(part)
        else:
            lines += explain_view(
                part,
                streams[part.stream],
                (slacks or {}).get(part.stream),
                (kernels or {}).get(part.name, ()),
                (kept_with or {}).get(part.name, ()),
            )
    return lines


def _explain_query(view: QueryView) -> list[str]:
    lines = [f"{'part' if view.hidden else 'view'} {view.name}"]
    retracting = view.accumulation == "retracting"
    lines.append(f"  emits: on epoch, {'retracting' if retracting else 'what changed'}")
    lines.append(f"  in the store, in the epoch's transaction: {_METHODS[view.method]}")
    if view.why:
        lines.append(f"    because {view.why}")
    if view.method == "keyed":
        lines.append(f"    affected keys: {', '.join(view.key)}")
    for input_ in view.inputs:
        note = ", only grows" if input_.append_only else ""
        lines.append(f"    reads {input_.relation}{note}")
    for rows in view.outer:
        here, gone = (
            " and ".join(view.aliases[index] for index in indices)
            for indices in (rows.present, [missing.input for missing in rows.missing])
        )
        lines.append(f"    rows of {here} without {gone} appear once the watermark is {_settled(view, rows)}")
    lines.append(f"    query: {view.sql}")
    if view.retain is not None:
        lines.append(f"    state: its rows for {format_duration(view.retain)}")
    else:
        lines.append("    state: its rows, as the contents of the view; grows with the result")
    return lines


def _settled(view: QueryView, rows: OuterRows) -> str:
    past = [
        " or ".join(f"{format_duration(after - 1)} past {view.aliases[index]}" for index, after in ways)
        for ways in rows.settled
    ]
    return (
        " and ".join(past)
        if len(past) == 1 or all(len(ways) == 1 for ways in rows.settled)
        else " and ".join(f"({way})" for way in past)
    )


def some(names: Sequence[str]) -> str:
    """Names, but not too many.

    >>> some(["a", "b", "c", "d", "e", "f", "g"])
    'a, b, c, d, e and 2 more'
    """
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def explain_view(
    view: View,
    stream: Stream,
    slack: str | None = None,
    kernel: Sequence[str] = (),
    kept_with: Sequence[str] = (),
) -> list[str]:
    """The plan of one part as indented lines, the last step first."""
    lines = [f"{'part' if view.hidden else 'view'} {view.name}"]
    if isinstance(view, AggregateView):
        lines += _explain_aggregate(view, stream, kept_with)
    elif isinstance(view, TopView):
        lines += _explain_top(view)
    else:
        lines += _explain_append(view, stream)
    if view.retain is not None:
        lines.append(f"  retains: {format_duration(view.retain)} behind the watermark, then deletes")
    lines.append("  on Spark, one job per epoch for all views of the stream")
    lines.extend(f"    {line}" for line in kernel)
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
    lines.append(f"    decode and scan: stream {stream.name}{_watermark(stream, slack)}")
    return lines


def _explain_aggregate(view: AggregateView, stream: Stream, kept_with: Sequence[str]) -> list[str]:
    lines = [f"  emits: {_trigger(view.trigger)}, {view.trigger.accumulation}"]
    lines.append("  in the store, in the epoch's transaction")
    if view.having is not None:
        lines.append(f"    having: {view.having}")
    lines.append(f"    merge deltas into state by {', '.join(k.sql for k in view.keys) or 'one group'}")
    bound = explain_keyed_state(view) if isinstance(view.window, KeyedWindow) else _bound(view)
    lines.append(f"    state: {bound}")
    if kept_with:
        lines.append(f"    merged together with {some(kept_with)}")
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
    if view.horizon is not None:
        streams = ", ".join(view.horizon.streams)
        bound = f"rows up to {format_duration(view.horizon.keep - 1)} behind the watermark of {streams}"
    elif view.top is not None:
        bound = _best(view.top)
    else:
        bound = "unbounded: every row is kept" if view.retain is None else "bounded by retain"
    if view.hidden:
        return ["  in the store: rows kept for the parts above", f"    state: {bound}"]
    return ["  emits: each row once, in its epoch", "  in the store: append", f"    state: {bound}"]


def _explain_top(view: TopView) -> list[str]:
    top = view.top
    by = f"PARTITION BY {', '.join(top.partition)} " if top.partition else ""
    lines = [
        "  emits: on epoch, what changed",
        "  in the store, in the epoch's transaction: what came ranked with what is kept of the same keys",
        f"    rank: {top.rank} OVER ({by}{top.order}), up to {top.count}",
    ]
    if view.condition is not None:
        lines.append(f"    shows rows: {view.condition}")
    lines.append(f"    outputs: {', '.join(f'{out.sql} AS {out.name}' for out in view.outputs)}")
    return [*lines, f"    state: {_best(top)}, as the contents of the view"]


def _best(top: Top) -> str:
    keys = ", ".join(top.partition) or "the whole stream"
    if top.numbers_rows:
        return f"at most {top.count} rows per {keys}"
    return f"rows up to rank {top.count} per {keys}, and as many as share a rank"


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


def _watermark(stream: Stream, slack: str | None) -> str:
    if stream.watermark is None:
        return ", no event time"
    if stream.percentile is not None:
        now = f" (now: {slack})" if slack is not None else ""
        return f", watermark behind {stream.event_time} by percentile {stream.percentile} of lateness{now}"
    return f", watermark {format_duration(stream.slack)} behind {stream.watermark.column}"
