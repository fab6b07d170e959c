"""The delta of a view over one epoch, as Spark SQL.

Every row of the epoch is given a class (used, filtered out, dead, failed) and counted, so the
accounting of a view adds up by construction. Lateness is a matter of whole panes and is judged
where the watermark is known, after this. The text depends on the view alone, never on the epoch:
Spark's generated code is compiled once.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from millstream.model.lateness import buckets_sql
from millstream.model.schema import Schema
from millstream.plan.aggregates import FILTER
from millstream.plan.nodes import DEAD, FAILED, FILTERED, USED, AggregateView, AppendView, Stream, View
from millstream.plan.windows import CountWindow, SessionWindow, Window


def delta_sql(view: View, stream: Stream, relation: str) -> str:
    """What the rows of a relation add to a view."""
    if isinstance(view, AggregateView):
        return _aggregate_sql(view, stream, relation)
    return _append_sql(view, stream, relation)


def stats_sql(relation: str) -> str:
    """Per partition: rows, dead rows, the newest event time and when the last row landed."""
    return (
        "SELECT __p, count(1) AS __rows, count_if(__dead IS NOT NULL) AS __dead_rows, "
        "max(IF(__dead IS NULL, __et, NULL)) AS __newest, max(__pt) AS __landed "
        f"FROM {relation} GROUP BY __p"
    )


def lateness_sql(relation: str, newest: Mapping[int, int]) -> str:
    """Rows by the bucket of their lateness: how far they are behind the newest row that came before them.

    `newest` is what the partitions had brought before the epoch. It is a map, which Spark's generated
    code refers to, where it would contain a number.
    """
    pairs = ", ".join(f"{partition}, {at}L" for partition, at in sorted(newest.items()))
    past = f"try_element_at(map({pairs}), __p)" if pairs else "CAST(NULL AS BIGINT)"
    before = "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
    placed = (
        f"(SELECT __p, __et, max(__et) OVER (PARTITION BY __p ORDER BY __order {before}) AS __before "
        f"FROM {relation} WHERE __dead IS NULL AND __et IS NOT NULL)"
    )
    late = f"(SELECT coalesce(greatest(greatest(__before, {past}) - __et, 0L), 0L) AS __late FROM {placed})"
    return f"SELECT __bucket, count(1) AS __rows FROM {buckets_sql(late, '__late')} GROUP BY __bucket"


def table_sql(stream: Stream, relation: str) -> str:
    """The change of each primary key that wins within the epoch; of each version, where these are in event time.

    `__newest` has what the table stores, `__delete` and, in event time, `__from`; `__rows` counts the changes.
    """
    keys = [f"`{key}`" for key in stream.primary_key]
    fields = [_own_columns(stream.stored), "__delete"]
    if stream.has_event_versions:
        keys.append("__et")
        fields.append("__et AS __from")
    order = "__order" if stream.rules.sequence is None else f"struct(`{stream.rules.sequence}`, __order)"
    return (
        f"SELECT max_by(struct({', '.join(fields)}), {order}) AS __newest, count(1) AS __rows "
        f"FROM {relation} WHERE __dead IS NULL GROUP BY {', '.join(keys)}"
    )


def late_rows_sql(view: View, stream: Stream, relation: str, before: int) -> str:
    """The used rows of a view whose windows were all closed when the watermark was at `before`."""
    window, cutoff = view.window, f"{before - view.lateness}L"
    rows = used_rows(view, stream, relation)
    horizon = view.horizon if isinstance(view, AppendView) else None
    if horizon is not None and horizon.late_after is not None:
        late = f"__et + {horizon.late_after}L <= {before}L"
        return rows_sql(stream, rows, f"__class = {USED} AND {late}", "'late' AS __reason")
    match window:
        case Window():
            late = window.is_late_sql("__pane", cutoff)
        case SessionWindow():
            # What is judged is a row of the delta: all rows of a key in a pane together.
            assert isinstance(view, AggregateView)
            group = ", ".join([*(f"IF(__class = {USED}, {key.sql}, NULL)" for key in view.keys), "__class", "__pane"])
            rows = f"(SELECT *, max(__wt) OVER (PARTITION BY {group}) AS __last FROM {rows})"
            late = f"__last + {window.gap} <= {cutoff}"
        case _:
            late = f"__pane + 1 <= {cutoff}"
    return rows_sql(stream, rows, f"__class = {USED} AND {late}", "'late' AS __reason")


def rows_sql(stream: Stream, relation: str, condition: str, extra: str) -> str:
    """Whole rows that meet a condition, with their place, for the late and dead letters."""
    return f"SELECT {_own_columns(stream.schema)}, __p, __o, __raw, {extra} FROM {relation} WHERE {condition}"


def _own_columns(schema: Schema) -> str:
    """Columns of a stream; instants leave Spark without a zone."""
    return ", ".join(
        f"CAST(`{c.name}` AS TIMESTAMP_NTZ) AS `{c.name}`" if pa.types.is_timestamp(c.type) else f"`{c.name}`"
        for c in schema.columns
    )


def used_rows(view: View, stream: Stream, relation: str) -> str:
    """A relation of all rows with `__class` and `__pane` for a view."""
    return f"(SELECT *, {_class(view)} AS __class, {_pane(view)} AS __pane FROM {_timed(view, stream, relation)})"


def failure_sql(view: View) -> str:
    """A struct that can be computed if and only if no expression of the view fails on the row."""
    checks = list(view.checks)
    rest = checks[1:] if view.filter is not None else checks
    fields = ", ".join(f"{sql} AS c{index}" for index, sql in enumerate(rest)) or "1 AS c0"
    body = f"struct({fields})"
    if view.filter is not None:
        body = f"IF(coalesce({view.filter}, false), {body}, NULL)"
    return f"struct(IF(__dead IS NULL, {body}, NULL) AS all)"


def _aggregate_sql(view: AggregateView, stream: Stream, relation: str) -> str:
    keys = [f"IF(__class = {USED}, {key.sql}, NULL)" for key in view.keys]
    names = [f"__k{index}" for index in range(len(keys))]
    if view.window is not None:
        keys.append(f"IF(__class = {USED}, __pane, NULL)")
        names.append("__pane")
    extra: list[str] = []
    match view.window:
        case SessionWindow():
            extra = ["min(__wt) AS __first", "max(__wt) AS __last"]
        case CountWindow():
            extra = ["min(__et) AS __t", "min(__p) AS __p", "min(__o) AS __o"]
    partials: list[str] = []
    for kept in view.kept:
        guard = [] if kept.accumulator.cheap and kept.filter is None else [f"__class = {USED}"]
        if kept.filter is not None:
            # Only a used row may be asked: on another the condition itself might fail.
            guard = [f"IF(__class = {USED}, {kept.filter}, false)"]
        clause = f" FILTER (WHERE {' AND '.join(guard)})" if guard else ""
        partials.extend(
            f"{partial.replace(FILTER, clause)} AS {column}"
            for partial, column in zip(kept.accumulator.partials, kept.delta_columns, strict=True)
        )
    select = ["__class", *(f"{k} AS {n}" for k, n in zip(keys, names, strict=True))]
    newest = f"max(IF(__class <> {DEAD}, __et, NULL)) AS __newest"
    select += ["count(1) AS __rows", newest, *extra, *partials]
    return (
        f"SELECT {', '.join(select)} FROM {used_rows(view, stream, relation)} GROUP BY {', '.join(['__class', *keys])}"
    )


def _append_sql(view: AppendView, stream: Stream, relation: str) -> str:
    columns = ", ".join(f"{sql} AS `{name}`" for name, sql in view.columns)
    pane = ", __pane" if view.window is not None else ""
    rows = used_rows(view, stream, relation)
    return f"SELECT {columns}{pane}, __et AS __t FROM {rows} WHERE __class = {USED}"


def append_counts_sql(view: AppendView, stream: Stream, relation: str) -> str:
    """How many rows of each class an append view saw."""
    return (
        f"SELECT __class, count(1) AS __rows FROM {used_rows(view, stream, relation)} "
        f"WHERE __class <> {USED} GROUP BY __class"
    )


def _timed(view: View, stream: Stream, relation: str) -> str:
    """Add `__wt`, the instant that decides about the row's window."""
    window = view.window
    if window is None:
        return relation
    if isinstance(window, CountWindow):
        # Rows of a file share their place, so a number keeps them apart.
        return f"(SELECT *, monotonically_increasing_id() AS __wt FROM {relation})"
    if window.on_clock:
        instant = "__pt"
    else:
        instant = "__et" if window.time_column == stream.event_time else f"unix_micros(`{window.time_column}`)"
    return f"(SELECT *, {instant} AS __wt FROM {relation})"


def _class(view: View) -> str:
    cases = [f"WHEN __dead IS NOT NULL THEN {DEAD}", f"WHEN __bad THEN {FAILED}"]
    if view.filter is not None:
        cases.append(f"WHEN NOT coalesce({view.filter}, false) THEN {FILTERED}")
    if view.window is not None and not view.window.on_clock:
        cases.append(f"WHEN __wt IS NULL THEN {FILTERED}")
        if isinstance(view.window, Window) and view.window.has_gaps:
            cases.append(f"WHEN {view.window.in_gap_sql('__wt')} THEN {FILTERED}")
    return f"CASE {' '.join(cases)} ELSE {USED} END"


def _pane(view: View) -> str:
    match view.window:
        case None:
            return "CAST(NULL AS BIGINT)"
        case CountWindow():
            return "__wt"
        case window:
            return window.pane_sql("__wt")
