"""The select list of a view of groups, split in two.

Owns what Spark evaluates per row (keys, arguments, filters of aggregates) and what the store
evaluates per group (expressions over keys, window bounds and accumulators).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp

from millstream.duck import store_sql, with_truths
from millstream.model.errors import MillstreamError
from millstream.plan.aggregates import AGGREGATES, Accumulator, Argument, aggregate_name
from millstream.plan.nodes import USED, Kept, Key, Output, fill
from millstream.plan.reading import Outputs, Reading, is_simple
from millstream.plan.refusals import NotIncrementalError
from millstream.plan.windows import KeyedWindow


def is_aggregate(select: exp.Select) -> bool:
    """Whether a query has groups."""
    if select.args.get("group") or select.args.get("having") or select.args.get("distinct"):
        return True
    return any(aggregate_name(node) for item in select.expressions for node in item.walk())


@dataclass
class Groups:
    """The groups of a query."""

    reading: Reading
    kept: list[Kept] = field(init=False, default_factory=list)
    windowed: bool = field(init=False)
    keys: tuple[Key, ...] = field(init=False)
    columns: tuple[Output, ...] = field(init=False)
    having: str | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        reading = self.reading
        select, outputs = reading.select, reading.outputs()
        nodes = self._key_nodes(select, outputs)
        self.windowed = self._window_is_grouped(select, nodes, outputs)
        nodes = [node for node in nodes if not reading.is_window_column(node)]
        self._check_partition(select, nodes)
        typed = reading.typed([reading.row_sql(node) for node in nodes])
        for (sql, _), node in zip(typed, nodes, strict=True):
            if not is_simple(node):
                reading.check(sql)
        self.keys = tuple(
            Key(sql, next((name for name, out in outputs if out == node), None))
            for (sql, _), node in zip(typed, nodes, strict=True)
        )
        self.columns = tuple(Output(name, self._group_sql(node, nodes)) for name, node in outputs)
        having = select.args.get("having")
        if having is not None:
            condition = exp.Having(this=self._with_aliases(having.this, outputs))
            self.having = self._group_sql(with_truths(condition).this, nodes)

    def _key_nodes(self, select: exp.Select, outputs: Outputs) -> list[exp.Expr]:
        group = select.args.get("group")
        if select.args.get("distinct"):
            if group or any(aggregate_name(n) for _, node in outputs for n in node.walk()):
                raise self.reading.unsupported("SELECT DISTINCT with aggregates", select)
            return [node for _, node in outputs]
        if group is None:
            return []
        if group.find(exp.GroupingSets, exp.Cube, exp.Rollup):
            raise self.reading.unsupported("grouping sets", select)
        if group.args.get("all"):
            return [node for _, node in outputs if not any(aggregate_name(n) for n in node.walk())]
        return [self._resolve_key(node, outputs) for node in group.expressions]

    def _resolve_key(self, node: exp.Expr, outputs: Outputs) -> exp.Expr:
        """GROUP BY may name an output by its position or, where no column has that name, its alias."""
        if isinstance(node, exp.Literal) and node.is_int:
            index = int(node.this)
            if not 1 <= index <= len(outputs):
                raise self.reading.error(
                    "BAD_GROUP_BY", f"GROUP BY {index}, but the select list has {len(outputs)} items", node
                )
            resolved = outputs[index - 1][1]
        elif isinstance(node, exp.Column) and not node.table and not self.reading.stream.schema.find(node.name):
            resolved = next((out for name, out in outputs if name.lower() == node.name.lower()), node)
        else:
            resolved = node
        if any(aggregate_name(part) for part in resolved.walk()):
            raise self.reading.error("AGGREGATE_IN_GROUP_BY", "GROUP BY cannot hold an aggregate", node)
        return resolved

    def _window_is_grouped(
        self,
        select: exp.Select,
        key_nodes: list[exp.Expr],
        outputs: Outputs,
    ) -> bool:
        if self.reading.window is None:
            return False
        if any(self.reading.is_window_column(node) for node in key_nodes):
            return True
        culprit = next(
            (c for _, node in outputs for c in node.find_all(exp.Column) if self.reading.is_window_column(c)), None
        )
        name = culprit.name if culprit is not None else "the window"
        raise self.reading.error(
            "WINDOW_NOT_GROUPED",
            f"{name} is selected but not grouped" if culprit is not None else "the window is not in GROUP BY",
            culprit if culprit is not None else select,
            hint="add GROUP BY window_start, window_end",
        )

    def _check_partition(self, select: exp.Select, keys: list[exp.Expr]) -> None:
        """The windows of a key are computed per key: PARTITION BY and GROUP BY must say the same."""
        window = self.reading.window
        if not isinstance(window, KeyedWindow):
            return
        wanted = {name.lower() for name in window.partition_by}
        grouped = {key.name.lower() for key in keys if isinstance(key, exp.Column) and not key.table}
        if wanted == grouped and all(isinstance(key, exp.Column) for key in keys):
            return
        columns = ", ".join(["window_start", "window_end", *window.partition_by])
        extra = next((k for k in keys if not isinstance(k, exp.Column) or k.name.lower() not in wanted), None)
        raise self.reading.error(
            "PARTITION_NOT_GROUPED",
            "the keys of GROUP BY are not those of PARTITION BY",
            extra if extra is not None else select,
            detail=(
                f"the windows are per {', '.join(window.partition_by)}"
                if window.partition_by
                else "without PARTITION BY the windows are over the whole stream"
            ),
            hint=f"write GROUP BY {columns}"
            + (f", or add {extra.sql('spark')} to PARTITION BY" if isinstance(extra, exp.Column) else ""),
        )

    def _with_aliases(self, node: exp.Expr, outputs: Outputs) -> exp.Expr:
        """HAVING may use the names of the select list."""
        names = {name.lower(): out for name, out in outputs}

        def replace(part: exp.Expr) -> exp.Expr:
            if isinstance(part, exp.Column) and not part.table:
                name = part.name.lower()
                if name in names and self.reading.stream.schema.find(name) is None:
                    return exp.paren(names[name].copy())
            return part

        result = node.copy().transform(replace)
        self.reading.check_columns(result, ())
        return result

    def _group_sql(self, node: exp.Expr, keys: list[exp.Expr]) -> str:
        """The store's SQL of an expression over keys, window bounds and aggregates."""

        def replace(part: exp.Expr) -> exp.Expr:
            for index, key in enumerate(keys):
                if part == key:
                    return exp.Var(this=f"__k{index}")
            if self.reading.is_window_column(part):
                window = self.reading.window
                assert window is not None
                bound = window.start_sql if part.name.lower() == "window_start" else window.end_sql
                return exp.Var(this=f"make_timestamp({bound})")
            if isinstance(part, exp.IgnoreNulls) and isinstance(part.this, exp.Filter):
                call, condition = part.this.this, part.this.expression.this
                if aggregate_name(call):
                    return exp.Var(this=self._aggregate_sql(call, condition, part, ignore_nulls=True))
            if isinstance(part, exp.IgnoreNulls) and aggregate_name(part.this):
                return exp.Var(this=self._aggregate_sql(part.this, None, part, ignore_nulls=True))
            if isinstance(part, exp.Filter) and aggregate_name(_call(part.this)):
                ignore = isinstance(part.this, exp.IgnoreNulls)
                return exp.Var(this=self._aggregate_sql(_call(part.this), part.expression.this, part, ignore))
            if aggregate_name(part):
                return exp.Var(this=self._aggregate_sql(part, None, part))
            if isinstance(part, exp.Column):
                raise self.reading.error(
                    "NOT_GROUPED",
                    f"{part.name} is neither grouped nor aggregated",
                    part,
                    hint=f"add {part.name} to GROUP BY, or wrap it in an aggregate such as max({part.name})",
                )
            return part

        plain = node.copy().transform(replace)
        if isinstance(plain, exp.Var):
            return str(plain.this)
        # By zero Spark would fail, and a group that can never be shown again helps nobody: it is NULL.
        return f"TRY({store_sql(plain)})"

    def _aggregate_sql(
        self,
        call: exp.Expr,
        filter_: exp.Expr | None,
        at: exp.Expr,
        ignore_nulls: bool = False,
    ) -> str:
        """Keep the accumulators of a call; the store's SQL of its result."""
        name = aggregate_name(call)
        assert name is not None
        nodes = [n for n in [call.this, call.args.get("expression"), *(call.args.get("expressions") or [])] if n]
        if nodes and isinstance(nodes[0], exp.Distinct):
            nodes = list(nodes[0].expressions)
            name = f"{name}_distinct"
        if nodes and isinstance(nodes[0], exp.Star):
            nodes = [exp.Literal.number(1)]
        if name in ("first", "last") and ignore_nulls:
            name = f"{name}_non_null"
        builder = AGGREGATES.get(name)
        if builder is None:
            words = f"{at.sql('spark')} has no incremental form"
            raise self.reading.error("UNSUPPORTED_AGGREGATE", words, at, kind=NotIncrementalError)
        for node in nodes:
            if any(aggregate_name(part) for part in node.walk()):
                raise self.reading.error("NESTED_AGGREGATE", "an aggregate cannot hold another", at)
            self.reading.check_columns(node, ())
        expected = 2 if name in ("min_by", "max_by") else 1
        if len(nodes) < expected or (len(nodes) > expected and not name.startswith("count")):
            raise self.reading.error("BAD_ARGUMENTS", f"{name} takes {expected} argument(s)", at)
        filter_sql = None
        if filter_ is not None:
            filter_sql = self.reading.condition(filter_)
            self.reading.check(filter_sql)
        arguments = []
        for node, (sql, type_) in zip(
            nodes, self.reading.typed([self.reading.row_sql(node) for node in nodes]), strict=True
        ):
            if not is_simple(node):
                if filter_sql is not None:
                    sql = f"IF(coalesce({filter_sql}, false), {sql}, NULL)"
                self.reading.check(sql)
                # Inside the argument, because Spark may compute one that several aggregates share
                # before it looks at their FILTER clauses.
                sql = f"IF(__class = {USED}, {sql}, NULL)"
            arguments.append(Argument(sql, type_, is_simple(node)))
        try:
            aggregate = builder(tuple(arguments))
        except MillstreamError as error:
            raise error.moved(self.reading.position(at)) from None
        columns = tuple(self._keep(accumulator, filter_sql) for accumulator in aggregate.accumulators)
        return fill(aggregate.result, columns)

    def _keep(self, accumulator: Accumulator, filter_: str | None) -> str:
        for kept in self.kept:
            if kept.accumulator == accumulator and kept.filter == filter_:
                return kept.column
        column = f"__a{len(self.kept)}"
        count = len(accumulator.partials)
        delta = (column,) if count == 1 else tuple(f"{column}_{i}" for i in range(count))
        self.kept.append(Kept(column, accumulator, delta, filter_))
        return column


def _call(node: exp.Expr) -> exp.Expr:
    return node.this if isinstance(node, exp.IgnoreNulls) else node
