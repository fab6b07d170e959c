"""From a CREATE MATERIALIZED VIEW statement to the plan of the view.

Runs nothing: the types of expressions come from a `Typer`, which asks Spark. `reading.py` reads
the query, `groups.py` splits the select list of a view of groups; here they become a plan.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from millstream.model.settings import ViewOptions
from millstream.plan.emits import check_emit
from millstream.plan.groups import Groups, is_aggregate
from millstream.plan.nodes import AggregateView, AppendView, Trigger, View
from millstream.plan.reading import Reading, StreamLookup, Typer, is_simple
from millstream.plan.refusals import MisplacedTriggerError
from millstream.plan.windows import Window
from millstream.sql.statements import CreateView, EveryEpoch


def plan_view(create: CreateView, streams: StreamLookup, typer: Typer) -> View:
    """The plan of a view over one stream."""
    reading = Reading(create, streams, typer)
    options = ViewOptions.read(dict(create.options), create.position)
    if options.retain is not None and options.retain < (create.emit.lateness or 0):
        raise reading.error("BAD_OPTION", "retain is shorter than the allowed lateness", reading.select)
    where = reading.select.args.get("where")
    filter_ = reading.filter(where.this) if where is not None else None
    if is_aggregate(reading.select):
        return _plan_groups(reading, filter_, options)
    return _plan_rows(reading, filter_, options)


def plan_rows(create: CreateView, streams: StreamLookup, typer: Typer) -> AppendView:
    """The plan of rows that are kept for another part of a view. How long they matter is that part's to say."""
    reading = Reading(create, streams, typer)
    where = reading.select.args.get("where")
    filter_ = reading.filter(where.this) if where is not None else None
    return replace(_plan_rows(reading, filter_, ViewOptions()), windows_close=False, hidden=True, changelog_retain=None)


def _plan_rows(reading: Reading, filter_: str | None, options: ViewOptions) -> AppendView:
    emit, query = reading.create.emit, reading.create.query
    if not isinstance(emit.repeatedly, EveryEpoch) or emit.accumulation != "accumulating":
        raise reading.error(
            "EMIT_WITHOUT_GROUPS",
            "this view has no groups that could be refined: each row is published once, in its epoch",
            query,
            hint="leave out EMIT, or aggregate with GROUP BY",
            kind=MisplacedTriggerError,
        )
    window = reading.window
    if window is not None and not (isinstance(window, Window) and window.is_tumbling and not window.on_clock):
        raise reading.error(
            "WINDOW_NOT_GROUPED",
            "the rows of this kind of window must be grouped",
            query,
            detail="only of TUMBLE on a column does a single row know its window",
            hint="aggregate, and add GROUP BY window_start, window_end",
        )
    outputs = reading.outputs()
    sqls = [reading.row_sql(node) for _, node in outputs]
    for sql, (_, node) in zip(sqls, outputs, strict=True):
        if not is_simple(node):
            reading.check(sql)
    return AppendView(
        name=reading.create.name,
        stream=reading.stream.name,
        window=window,
        windows_close=reading.windows_close(),
        filter=filter_,
        columns=tuple((name, sql) for (name, _), (sql, _) in zip(outputs, reading.typed(sqls), strict=True)),
        lateness=emit.lateness or 0,
        retain=options.retain,
        changelog_retain=options.changelog_retain,
        checks=tuple(reading.checks),
    )


def _plan_groups(reading: Reading, filter_: str | None, options: ViewOptions) -> AggregateView:
    groups = Groups(reading)
    return AggregateView(
        name=reading.create.name,
        stream=reading.stream.name,
        window=reading.window if groups.windowed else None,
        windows_close=groups.windowed and reading.windows_close(),
        filter=filter_,
        keys=groups.keys,
        kept=tuple(groups.kept),
        outputs=groups.columns,
        having=groups.having,
        trigger=_trigger(reading, groups.windowed),
        lateness=reading.create.emit.lateness or 0,
        retain=options.retain,
        changelog_retain=options.changelog_retain,
        checks=tuple(reading.checks),
        always_changes=any(_is_count_star(node) for _, node in reading.outputs()),
    )


def _trigger(reading: Reading, windowed: bool) -> Trigger:
    emit, query = reading.create.emit, reading.create.query
    check_emit(reading)
    if emit.on_watermark and not (windowed and reading.windows_close()):
        raise reading.error(
            "EMIT_NEEDS_WINDOW",
            "EMIT ON WATERMARK needs windows that the watermark can close",
            query,
            detail=(
                "the view has no window, so its groups have no end"
                if not windowed
                else "the windows are on a column that is not the event time of the stream"
            ),
            hint="group by a window on the column named in WATERMARK FOR, or use EMIT ON EPOCH",
            kind=MisplacedTriggerError,
        )
    if emit.lateness is not None and not (windowed and reading.windows_close()):
        raise reading.error(
            "LATENESS_WITHOUT_WINDOW",
            "ALLOWED LATENESS has no meaning here: the rows of this view are never late",
            query,
            hint="leave it out",
            kind=MisplacedTriggerError,
        )
    late = emit.late
    if emit.on_watermark and late is None and emit.lateness:
        late = EveryEpoch()
    return Trigger(emit.repeatedly, emit.early, emit.on_watermark, late, emit.accumulation)


def _is_count_star(node: exp.Expr) -> bool:
    return isinstance(node, exp.Count) and isinstance(node.this, exp.Star | exp.Literal)
