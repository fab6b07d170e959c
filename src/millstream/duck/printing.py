"""A checked query or expression as the store's SQL.

Owns the one place where StreamSQL becomes DuckDB's SQL. What it prints gives the value that Spark
gives for the same expression. Where DuckDB's own function would not, `store_forms` has another; an
argument of a type for which there is none is refused when the store binds the query, so a result is
never silently different. Must be given only what `check_query` has let in.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from sqlglot import ErrorLevel, UnsupportedError, exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.generators.duckdb import DuckDBGenerator

from millstream.duck.casts import cast_form, literal_fits
from millstream.duck.forms import BY_DATE, BY_REAL, FORMS, WIDE, failing, failure, refusing
from millstream.duck.regexes import store_pattern, store_replacement
from millstream.model.errors import MillstreamError
from millstream.sql.formats import format_regex, strftime_format
from millstream.sql.user_calls import UserCall, store_call

_VARYING = (exp.Column, exp.Var, exp.Identifier)
"""What differs from row to row: a column, what stands for one, or what a lambda is given."""
_SIMPLE = exp.Column | exp.Literal | exp.Null | exp.Boolean | exp.Identifier
_FAILING = re.compile("⟪(.*?)⟫")
_HOLE = re.compile(r"⟨(\d)⟩")
_WHOLE_DAYS = re.compile("(?:YEAR|QUARTER|MONTH|WEEK|DAY)S?", re.IGNORECASE)
_ROUND = (
    "CASE WHEN NOT isfinite(⟨0⟩) OR abs(⟨0⟩) >= 9007199254740992 THEN ⟨0⟩ "
    "ELSE CAST(CAST(CAST(CAST(⟨0⟩ AS DOUBLE) AS VARCHAR) AS DECIMAL(38, {digits})) AS DOUBLE) END"
)
_WEEKDAYS = {name: number for number, name in enumerate(("mon", "tue", "wed", "thu", "fri", "sat", "sun"), 1)}
_TEMPORAL = "typeof({}) IN ('DATE', 'TIMESTAMP')"


def quote(name: str) -> str:
    """A name as an identifier of the store.

    >>> quote('a"b')
    '"a""b"'
    """
    return '"' + name.replace('"', '""') + '"'


def store_sql(expression: exp.Expr) -> str:
    """The text of a query or an expression for the store. Refuses what that would leave out a part of."""
    try:
        return expression.sql(dialect=StoreDialect, unsupported_level=ErrorLevel.RAISE)
    except UnsupportedError as error:
        raise _refused(str(error).splitlines()[0], expression) from None


class Truth(exp.Expression, exp.Func):
    """A condition whose type is known only to the store: it must be BOOLEAN. DuckDB would convert a text row by row."""

    arg_types = {"this": True}


class StoreGenerator(DuckDBGenerator):
    """Prints DuckDB's SQL with Spark's meaning."""

    def form(self, template: str, *arguments: exp.Expr | None) -> str:
        """A template over arguments; those that are not simple are computed once."""
        given = [argument if argument is not None else exp.Null() for argument in arguments]
        varying = next((f"⟨{i}⟩" for i, argument in enumerate(given) if argument.find(*_VARYING)), None)
        # What fails of a constant in TRY is known to be NULL.
        is_null = varying is None and template.startswith("TRY(")
        template = _FAILING.sub(lambda found: "NULL" if is_null else failure(found.group(1), varying), template)
        used = [int(number) for number in _HOLE.findall(template)]
        bound = {i for i in set(used) if used.count(i) > 1 and not _is_simple(given[i])}
        if not bound:
            texts = [self._operand(argument) for argument in given]
            return _HOLE.sub(lambda hole: texts[int(hole.group(1))], template)
        # All of them, because an aggregate may stand beside the lambda but not in it.
        # In HAVING a field that is named with a dot would be taken for a column.
        names = {i: f"__v['a{i}']" for i, argument in enumerate(given) if not _is_simple(argument)}
        fields = ", ".join(f"a{i} := {self.sql(given[i])}" for i in names)
        body = _HOLE.sub(lambda hole: names.get(int(hole.group(1))) or self.sql(given[int(hole.group(1))]), template)
        return f"list_transform([struct_pack({fields})], lambda __v: {body})[1]"

    def _operand(self, node: exp.Expr) -> str:
        text = self.sql(node)
        return text if _is_simple(node) or isinstance(node, exp.Paren | exp.Func) else f"({text})"

    # -- casts -------------------------------------------------------------------------------

    def cast_sql(self, expression: exp.Cast, safe_prefix: str | None = None) -> str:
        target, value = expression.to, expression.this
        if isinstance(expression, exp.TryCast):
            safe_prefix = "TRY_"
        if isinstance(value, exp.Literal) and literal_fits(value, target):
            return super().cast_sql(expression, safe_prefix)
        template = cast_form(target, self.sql(target), attempt=isinstance(expression, exp.TryCast))
        return self.form(template, expression.this) if template else super().cast_sql(expression, safe_prefix)

    def trycast_sql(self, expression: exp.TryCast) -> str:
        return self.cast_sql(expression)

    # -- arithmetic --------------------------------------------------------------------------

    def sub_sql(self, expression: exp.Sub) -> str:
        left, right = expression.this, expression.expression
        if isinstance(right, exp.Interval):
            return self._shifted(left, right, "-")
        if any(isinstance(side, exp.Literal | exp.Binary | exp.Neg) for side in (left, right)):
            return super().sub_sql(expression)
        condition = f"{_TEMPORAL.format('⟨0⟩')} OR {_TEMPORAL.format('⟨1⟩')}"
        hint = "two times are not subtracted in the store; use datediff or unix_micros"
        return self.form(refusing(condition, hint, "⟨0⟩ - ⟨1⟩"), left, right)

    def add_sql(self, expression: exp.Add) -> str:
        left, right = expression.this, expression.expression
        if isinstance(right, exp.Interval):
            return self._shifted(left, right, "+")
        if isinstance(left, exp.Interval):
            return self._shifted(right, left, "+")
        return super().add_sql(expression)

    def _shifted(self, time: exp.Expr, interval: exp.Interval, sign: str) -> str:
        moved = f"⟨0⟩ {sign} {self.sql(interval)}"
        if not interval.text("unit"):
            hint = "an INTERVAL of several units is not added to a DATE in the store; CAST(… AS TIMESTAMP)"
            return self.form(refusing("typeof(⟨0⟩) = 'DATE'", hint, moved), time)
        if not _WHOLE_DAYS.fullmatch(interval.text("unit")):
            return self.form(moved, time)
        return self.form(f"{BY_DATE}(⟨0⟩, CAST({moved} AS DATE), {moved})", time)

    def round_sql(self, expression: exp.Round) -> str:
        digits = expression.args.get("decimals")
        number = "0" if digits is None else self.sql(digits)
        if not re.fullmatch(r"-?\d{1,2}", number):
            raise _refused("round takes a constant number of digits", expression)
        if isinstance(expression.this, exp.Null):
            return "NULL"
        plain = f"round(⟨0⟩, {number})" if digits is not None else "round(⟨0⟩)"
        if not 0 <= int(number) <= 20:
            hint = "a DOUBLE is rounded to 0 to 20 digits in the store"
            return self.form(refusing("typeof(⟨0⟩) IN ('DOUBLE', 'FLOAT')", hint, plain), expression.this)
        double = _ROUND.format(digits=number)
        return self.form(f"{BY_REAL}(⟨0⟩, CAST({double} AS FLOAT), {double}, {plain})", expression.this)

    def avg_sql(self, expression: exp.Avg) -> str:
        distinct = isinstance(expression.this, exp.Distinct)
        value = expression.this.expressions[0] if distinct else expression.this
        hint = "a DECIMAL has no avg in the store; avg(CAST(… AS DOUBLE))"
        given = self.form(refusing("starts_with(typeof(⟨0⟩), 'DECIMAL')", hint, "⟨0⟩"), value)
        return f"avg({'DISTINCT ' if distinct else ''}{given})"

    def log_sql(self, expression: exp.Log) -> str:
        base, number = expression.this, expression.expression
        if number is None:
            return self.form("CASE WHEN ⟨0⟩ > 0 THEN ln(CAST(⟨0⟩ AS DOUBLE)) END", base)
        template = "CASE WHEN ⟨0⟩ > 0 AND ⟨1⟩ > 0 THEN ln(CAST(⟨1⟩ AS DOUBLE)) / ln(CAST(⟨0⟩ AS DOUBLE)) END"
        return self.form(template, base, number)

    # -- strings -----------------------------------------------------------------------------

    def concat_sql(self, expression: exp.Concat) -> str:
        return " || ".join(self._texts(expression.expressions)) if expression.expressions else "''"

    def dpipe_sql(self, expression: exp.DPipe) -> str:
        return " || ".join(self._texts([expression.this, expression.expression]))

    def concatws_sql(self, expression: exp.ConcatWs) -> str:
        return f"concat_ws({', '.join(self._texts(expression.expressions))})"

    def _texts(self, parts: list[exp.Expr]) -> list[str]:
        """Parts of a text: DuckDB would convert what is no text in its own way."""
        condition = "typeof(⟨0⟩) IN ('DOUBLE', 'FLOAT', 'BLOB')"
        hint = "what is joined to a text is converted first: CAST(… AS STRING)"
        return [
            self._operand(part)
            if isinstance(part.unnest(), exp.Literal | exp.Cast | exp.DPipe | exp.Concat)
            else self.form(refusing(condition, hint, "⟨0⟩"), part)
            for part in parts
        ]

    def substring_sql(self, expression: exp.Substring) -> str:
        start = "CASE WHEN ⟨1⟩ = 0 THEN 1 ELSE ⟨1⟩ END"
        length = expression.args.get("length")
        if length is None:
            return self.form(f"substring(⟨0⟩, {start})", expression.this, expression.args["start"])
        template = f"substring(⟨0⟩, {start}, CASE WHEN ⟨2⟩ < 0 THEN 0 ELSE ⟨2⟩ END)"
        return self.form(template, expression.this, expression.args["start"], length)

    def replace_sql(self, expression: exp.Replace) -> str:
        by = expression.args.get("replacement") or exp.Literal.string("")
        return self.form("replace(⟨0⟩, ⟨1⟩, ⟨2⟩)", expression.this, expression.expression, by)

    def pad_sql(self, expression: exp.Pad) -> str:
        fill = expression.args.get("fill_pattern") or exp.Literal.string(" ")
        cut = "left(⟨0⟩, CASE WHEN ⟨1⟩ < 0 THEN 0 ELSE ⟨1⟩ END)"
        function = "lpad" if expression.args.get("is_left") else "rpad"
        template = f"CASE WHEN ⟨2⟩ = '' THEN {cut} ELSE {function}(⟨0⟩, ⟨1⟩, ⟨2⟩) END"
        return self.form(template, expression.this, expression.expression, fill)

    def strposition_sql(self, expression: exp.StrPosition) -> str:
        text, part, start = expression.this, expression.args["substr"], expression.args.get("position")
        if start is None:
            return self.form("strpos(⟨0⟩, ⟨1⟩)", text, part)
        rest = "strpos(substring(⟨0⟩, ⟨2⟩), ⟨1⟩)"
        template = (
            "CASE WHEN ⟨2⟩ IS NULL THEN 0 WHEN ⟨0⟩ IS NULL OR ⟨1⟩ IS NULL THEN NULL WHEN ⟨2⟩ < 1 THEN 0 "
            f"WHEN ⟨1⟩ = '' THEN 1 WHEN {rest} = 0 THEN 0 ELSE {rest} + ⟨2⟩ - 1 END"
        )
        return self.form(template, text, part, start)

    def like_sql(self, expression: exp.Like) -> str:
        return self._like(expression, "⟨0⟩ LIKE ⟨1⟩")

    def ilike_sql(self, expression: exp.ILike) -> str:
        return self._like(expression, f"{FORMS[exp.Lower][0]} LIKE {FORMS[exp.Lower][0].replace('⟨0⟩', '⟨1⟩')}")

    def _like(self, expression: exp.Like | exp.ILike, template: str) -> str:
        pattern, around = expression.expression, expression.parent
        if expression.args.get("negate"):
            template = template.replace(" LIKE ", " NOT LIKE ")
        is_escaped = isinstance(around, exp.Escape)
        escape = around.expression.name if isinstance(around, exp.Escape) else "\\"
        plain = isinstance(pattern, exp.Literal) and "\\" not in pattern.name
        if not plain and not is_escaped:
            template += r" ESCAPE '\'"
        if isinstance(pattern, exp.Literal):
            run = len(pattern.name) - len(pattern.name.rstrip(escape))
            if run % 2:
                raise _refused("a LIKE pattern ends with its escape character", expression)
        elif not is_escaped:
            # DuckDB fails past TRY.
            ends = r"(length(⟨1⟩) - length(rtrim(⟨1⟩, '\'))) % 2 = 1"
            template = (
                f"CASE WHEN {ends} THEN {failing('the pattern ends with its escape character')} ELSE {template} END"
            )
        return self.form(template, expression.this, pattern)

    def regexplike_sql(self, expression: exp.RegexpLike) -> str:
        pattern = self._pattern(expression)
        return f"regexp_matches({self.sql(expression, 'this')}, {pattern})"

    def regexpextract_sql(self, expression: exp.RegexpExtract) -> str:
        group = self.sql(expression, "group") or "1"
        return f"regexp_extract({self.sql(expression, 'this')}, {self._pattern(expression)}, {group})"

    def regexpextractall_sql(self, expression: exp.RegexpExtractAll) -> str:
        group = self.sql(expression, "group") or "1"
        return f"regexp_extract_all({self.sql(expression, 'this')}, {self._pattern(expression)}, {group})"

    def regexpreplace_sql(self, expression: exp.RegexpReplace) -> str:
        replacement = expression.args.get("replacement")
        if not (isinstance(replacement, exp.Literal) and replacement.is_string):
            raise _refused("the replacement of regexp_replace is a constant", expression)
        by = self.sql(exp.Literal.string(store_replacement(replacement.name)))
        return f"regexp_replace({self.sql(expression, 'this')}, {self._pattern(expression)}, {by}, 'g')"

    def regexpsplit_sql(self, expression: exp.RegexpSplit) -> str:
        return f"string_split_regex({self.sql(expression, 'this')}, {self._pattern(expression)})"

    def regexpcount_sql(self, expression: exp.RegexpCount) -> str:
        return self.form(f"CAST(len(regexp_extract_all(⟨0⟩, {self._pattern(expression)})) AS INTEGER)", expression.this)

    def _pattern(self, expression: exp.Expr) -> str:
        pattern = expression.expression
        if not (isinstance(pattern, exp.Literal) and pattern.is_string):
            raise _refused("a regular expression is a constant", expression)
        return self.sql(exp.Literal.string(store_pattern(pattern.name)))

    # -- time --------------------------------------------------------------------------------

    def tsordstodate_sql(self, expression: exp.TsOrDsToDate) -> str:
        format_ = expression.args.get("format")
        if format_ is None:
            return self.sql(exp.cast(expression.this.copy(), exp.DType.DATE))
        return f"CAST({self._parsed(expression.this, format_)} AS DATE)"

    def strtotime_sql(self, expression: exp.StrToTime) -> str:
        return self._parsed(expression.this, expression.args["format"])

    def nextday_sql(self, expression: exp.NextDay) -> str:
        name = expression.expression
        number = _WEEKDAYS.get(name.name.lower()[:3]) if isinstance(name, exp.Literal) else None
        if number is None:
            raise _refused("next_day takes the constant name of a day", expression)
        date = "CAST(⟨0⟩ AS DATE)"
        return self.form(f"{date} + CAST(({number} - isodow({date}) + 6) % 7 + 1 AS INTEGER)", expression.this)

    def _parsed(self, text: exp.Expr, format_: exp.Expr) -> str:
        if not isinstance(format_, exp.Literal):
            raise _refused("the format of a time is a constant", text)
        regex = self.sql(exp.Literal.string(format_regex(format_.name)))
        form = self.sql(exp.Literal.string(strftime_format(format_.name)))
        return self.form(
            f"CASE WHEN ⟨0⟩ IS NULL THEN NULL WHEN regexp_full_match(⟨0⟩, {regex}) THEN strptime(⟨0⟩, {form}) "
            f"ELSE {failing('the text does not have the format of the time')} END",
            text,
        )

    # -- relations ---------------------------------------------------------------------------

    def window_sql(self, expression: exp.Window) -> str:
        spec, order = expression.args.get("spec"), expression.args.get("order")
        if spec is None or order is None or spec.text("kind").upper() != "RANGE":
            return super().window_sql(expression)
        if any(isinstance(spec.args.get(side), exp.Literal) for side in ("start", "end")):
            # The bound of a frame may lie beyond the type of what it is counted from.
            expression = expression.copy()
            for ordered in expression.args["order"].expressions:
                ordered.set("this", exp.Var(this=f"{WIDE}({self.sql(ordered, 'this')})"))
        return super().window_sql(expression)

    def lateral_sql(self, expression: exp.Lateral) -> str:
        if not expression.args.get("view"):
            return super().lateral_sql(expression)
        alias, outer = expression.args.get("alias"), expression.args.get("outer")
        value = self.sql(expression.this, "this")
        with_place = isinstance(expression.this, exp.Posexplode)
        names = [self.sql(column) for column in alias.columns] if alias is not None else []
        names = names or (["pos", "col"] if with_place else ["col"])
        name = self.sql(alias, "this") if alias is not None and alias.this else "__lateral"
        given = f"{name}({', '.join(names)})"
        if not with_place and not outer and len(names) == 1:
            return f" CROSS JOIN UNNEST({value}) AS {given}"
        is_map = len(names) - with_place == 2
        lists = [f"map_keys({value})", f"map_values({value})"] if is_map else [value]
        if with_place:
            lists.insert(0, f"range(len({lists[0]}))")
        rows = f"SELECT {', '.join(f'unnest({sql}) AS c{i}' for i, sql in enumerate(lists))}"
        if with_place:
            rows = f"SELECT * REPLACE (CAST(c0 AS INTEGER) AS c0) FROM ({rows})"
        return f" {'LEFT' if outer else 'CROSS'} JOIN LATERAL ({rows}) AS {given}{' ON true' if outer else ''}"

    # -- arrays and maps -----------------------------------------------------------------------

    def generateseries_sql(self, expression: exp.GenerateSeries) -> str:
        start, end, step = (expression.args.get(name) for name in ("start", "end", "step"))
        if step is None:
            return self.form("generate_series(⟨0⟩, ⟨1⟩, CASE WHEN ⟨0⟩ <= ⟨1⟩ THEN 1 ELSE -1 END)", start, end)
        template = (
            "CASE WHEN ⟨0⟩ IS NULL OR ⟨1⟩ IS NULL THEN NULL WHEN ⟨2⟩ = 0 AND ⟨0⟩ = ⟨1⟩ THEN [⟨0⟩] "
            "WHEN ⟨2⟩ = 0 OR (⟨0⟩ < ⟨1⟩) <> (⟨2⟩ > 0) AND ⟨0⟩ <> ⟨1⟩ "
            f"THEN {failing('the step of sequence does not lead to its end')} ELSE generate_series(⟨0⟩, ⟨1⟩, ⟨2⟩) END"
        )
        return self.form(template, start, end, step)

    def arrayslice_sql(self, expression: exp.ArraySlice) -> str:
        begin = "CASE WHEN ⟨1⟩ < -len(⟨0⟩) THEN len(⟨0⟩) + 1 WHEN ⟨1⟩ < 0 THEN len(⟨0⟩) + ⟨1⟩ + 1 ELSE ⟨1⟩ END"
        template = (
            "CASE WHEN ⟨0⟩ IS NULL OR ⟨1⟩ IS NULL OR ⟨2⟩ IS NULL THEN NULL WHEN ⟨1⟩ = 0 OR ⟨2⟩ < 0 "
            f"THEN {failing('slice counts from 1 and takes no negative length')} ELSE array_slice(⟨0⟩, {begin}, "
            f"{begin} + CAST(⟨2⟩ AS BIGINT) - 1) END"
        )
        return self.form(template, expression.this, expression.args["start"], expression.args["end"])

    def jsonextractscalar_sql(self, expression: exp.JSONExtractScalar) -> str:
        return self.form(
            f"CASE WHEN json_valid(⟨0⟩) THEN ⟨0⟩ ->> {self.sql(expression, 'expression')} END", expression.this
        )

    def bracket_sql(self, expression: exp.Bracket) -> str:
        (key,) = expression.expressions
        container = expression.this
        if isinstance(key, exp.Literal) and key.is_string:
            return f"{self._operand(container)}[{self.sql(key)}]"
        index = "TRY_CAST(⟨1⟩ AS BIGINT)"
        if expression.args.get("offset") == 1:
            at, inside = "⟨1⟩", f"{index} <> 0 AND abs({index}) <= len(⟨0⟩)"
            if expression.args.get("safe"):
                inside = f"{index} <> 0"
        else:
            at, inside = "⟨1⟩ + 1", f"{index} >= 0 AND {index} < len(⟨0⟩)"
        template = (
            f"CASE WHEN ⟨0⟩ IS NOT NULL AND NOT ({inside}) "
            f"THEN {failing('the index is outside of the array')} ELSE ⟨0⟩[{at}] END"
        )
        return self.form(template, container, key)


def _is_simple(node: exp.Expr) -> bool:
    """Whether a node may be written several times; a Var may hold the SQL of an aggregate."""
    return isinstance(node, _SIMPLE) or (isinstance(node, exp.Var) and node.name.isidentifier())


def _refused(message: str, node: exp.Expr) -> MillstreamError:
    return MillstreamError("ARGUMENT_NOT_ALLOWED", message, detail=f"in {node.sql('spark')}")


def _writer(template: str, names: tuple[str, ...]) -> Callable[[StoreGenerator, exp.Expr], str]:
    def write(generator: StoreGenerator, node: exp.Expr) -> str:
        arguments: list[exp.Expr | None] = []
        for name in names:
            value = node.args.get(name)
            arguments.extend(value if isinstance(value, list) else [value])
        return generator.form(template, *arguments)

    return write


def _anonymous(generator: StoreGenerator, node: exp.Anonymous) -> str:
    template = FORMS.get(node.name.lower())
    if template is not None:
        return generator.form(template[0], *node.expressions)
    return DuckDBGenerator.anonymous_sql(generator, node)


StoreGenerator.TRANSFORMS = {
    **{
        kind: write
        for kind, write in DuckDBGenerator.TRANSFORMS.items()
        if f"{kind.key}_sql" not in vars(StoreGenerator)
    },
    **{kind: _writer(*form) for kind, form in FORMS.items() if not isinstance(kind, str)},
    exp.Anonymous: _anonymous,
    Truth: _writer(
        refusing("typeof(⟨0⟩) NOT IN ('BOOLEAN', '\"NULL\"')", "a condition is BOOLEAN; compare with a value", "⟨0⟩"),
        ("this",),
    ),
    UserCall: lambda self, node: store_call(node, [self.sql(argument) for argument in node.expressions]),
}


class StoreDialect(DuckDB):
    """DuckDB as the store speaks it."""

    Generator = StoreGenerator
