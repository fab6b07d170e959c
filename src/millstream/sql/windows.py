"""The window table functions as they are written: `FROM TUMBLE(bids, ts, INTERVAL 10 SECONDS)`.

Owns the data of a call and its grammar; `read_window_call` takes the data out of a parsed FROM
item and checks it. A call that was read has constant positive sizes and plain column names.
Must not know what a window does with its rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NoReturn

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from millstream.model.errors import MillstreamError, Placed, Position
from millstream.sql.grammar import Grammar
from millstream.sql.intervals import interval_micros
from millstream.sql.positions import place, position_of

WindowKind = Literal["tumble", "hop", "session", "slide", "count"]

# Name → kind, and how a call is written.
WINDOW_FUNCTIONS: dict[str, tuple[WindowKind, str]] = {
    "TUMBLE": ("tumble", "TUMBLE(stream, time_column, size[, offset])"),
    "HOP": ("hop", "HOP(stream, time_column, slide, size[, offset])"),
    "SESSION": ("session", "SESSION(stream PARTITION BY key, time_column, gap)"),
    "SLIDE": ("slide", "SLIDE(stream PARTITION BY key, time_column, size)"),
    "COUNT_WINDOW": ("count", "COUNT_WINDOW(stream PARTITION BY key, rows[, slide])"),
}
_PARTITIONED = ("session", "slide", "count")


@dataclass(frozen=True, slots=True)
class WindowCall:
    """One call. Sizes are microseconds, but for `count`, where `size` and `slide` are rows.

    `size` of a session is its gap. `slide` equals `size` where the call has none. With `on_clock`
    the time argument is `PROCTIME()`: the instant at which a row landed.
    """

    kind: WindowKind
    source: str
    time_column: str | None
    size: int
    slide: int
    offset: int = 0
    partition_by: tuple[str, ...] = ()
    alias: str | None = None
    on_clock: bool = False
    position: Position | None = field(default=None, compare=False)


class WindowFunction(exp.Expression):
    """A call as parsed: `this` is the relation, `name` the function as in WINDOW_FUNCTIONS.

    The columns among `expressions` are identifiers and not column references, because they are
    arguments of the call and belong to no scope of the query.
    """

    arg_types = {"this": True, "function": True, "partitioned": False, "expressions": False}


class ProcessingTime(exp.Expression):
    """`PROCTIME()` as the time argument of a call."""

    arg_types = {}


class WindowGrammar(Grammar):
    """The rule of a call; the function's name and its opening parenthesis have been read."""

    FUNC_TOKENS = Grammar.FUNC_TOKENS | {TokenType.SESSION}
    FUNCTION_PARSERS = {
        **Grammar.FUNCTION_PARSERS,
        **{name: lambda self: self.window_function() for name in WINDOW_FUNCTIONS},
    }

    def window_function(self) -> WindowFunction:
        name = self._tokens[self._index - 2]
        self._match(TokenType.TABLE)
        if not self._match_set((TokenType.VAR, TokenType.IDENTIFIER, *self.ID_VAR_TOKENS), advance=False):
            self._refuse_source(name)
        relation = self._parse_id_var(any_token=False)
        if relation is None or self._match(TokenType.DOT, advance=False):
            self._refuse_source(name)
        partitioned = self._match(TokenType.PARTITION_BY)
        arguments: list[exp.Expr] = []
        if partitioned or self._match(TokenType.COMMA):
            arguments = self._parse_csv(self._window_argument)
        if not self._match(TokenType.R_PAREN, advance=False):
            self.raise_error("Expecting )")
        call = WindowFunction(this=relation, function=name.text.upper(), partitioned=partitioned, expressions=arguments)
        place(call, name, self._curr)
        return call

    def _window_argument(self) -> exp.Expr:
        first = self._curr
        if self._match_text_seq("DESCRIPTOR", "("):
            argument = self._parse_column()
            self._match_r_paren()
        elif self._match_text_seq("PROCTIME", "(", ")"):
            argument = ProcessingTime()
        else:
            argument = self._parse_disjunction()
        if argument is None:
            self.raise_error("Expecting an argument")
        if isinstance(argument, exp.Column) and isinstance(argument.this, exp.Identifier) and not argument.table:
            argument = argument.this
        place(argument, first, self._prev)
        return argument

    def _refuse_source(self, name: Token) -> NoReturn:
        function = name.text.upper()
        raise self.refusal(
            "BAD_WINDOW",
            f"the first argument of {function} is the name of a stream, table or view",
            hint=f"{WINDOW_FUNCTIONS[function][1]}; give a subquery a name with CREATE VIEW",
        )


def read_window_call(table: exp.Expr, text: str = "", source: str = "<sql>") -> WindowCall | None:
    """The window call of a FROM item, or None where it is something else.

    `text` and `source` say where the query came from, for positions in errors.
    """
    function = table.this if isinstance(table, exp.Table) else None
    if not isinstance(function, WindowFunction):
        return None
    return _Reader(function, text, source).read(table.alias or None)


class _Reader:
    """Takes one call apart, from the last argument to the first: keys come before the rest."""

    def __init__(self, function: WindowFunction, text: str, source: str) -> None:
        self.function = function
        self.name: str = function.args["function"]
        self.kind, self.form = WINDOW_FUNCTIONS[self.name]
        self.arguments: list[exp.Expr] = list(function.expressions)
        self.text = text
        self.source = source

    def read(self, alias: str | None) -> WindowCall:
        if self.function.args.get("partitioned") and self.kind not in _PARTITIONED:
            self.refuse(f"{self.name} takes no PARTITION BY", hint="group by the key instead")
        self.check_count()
        time: exp.Expr | None = None
        slide = offset = 0
        match self.kind:
            case "count":
                sizes = self.trailing_numbers()
                size, slide = sizes[0], sizes[-1]
            case "session" | "slide":
                size = self.interval(self.take_last(), "gap" if self.kind == "session" else "size")
                time = self.take_last()
            case "tumble" | "hop":
                required = 2 if self.kind == "tumble" else 3
                if len(self.arguments) > required:
                    offset = self.interval(self.take_last(), None)
                size = self.interval(self.take_last(), "size")
                slide = self.interval(self.take_last(), "slide") if self.kind == "hop" else size
                time = self.take_last()
        on_clock = isinstance(time, ProcessingTime)
        return WindowCall(
            kind=self.kind,
            source=self.function.name,
            time_column=self.column(time) if time is not None and not on_clock else None,
            size=size,
            slide=slide or size,
            offset=offset,
            partition_by=self.keys(),
            alias=alias,
            on_clock=on_clock,
            position=position_of(self.function, self.text, self.source),
        )

    def check_count(self) -> None:
        if self.kind == "count":
            return  # its keys and its numbers tell themselves apart
        least = 3 if self.kind == "hop" or self.function.args.get("partitioned") else 2
        most = least if self.kind in _PARTITIONED else least + 1
        if len(self.arguments) < least:
            self.refuse(f"{self.name} has too few arguments")
        if len(self.arguments) > most and not self.function.args.get("partitioned"):
            self.refuse(f"{self.name} has too many arguments")

    def take_last(self) -> exp.Expr:
        if not self.arguments:
            self.refuse(f"{self.name} has too few arguments")
        return self.arguments.pop()

    def interval(self, node: exp.Expr, positive: str | None) -> int:
        if isinstance(node, exp.Literal | exp.Identifier):
            self.refuse(f"{self.name} needs an interval here", node, hint=f"{self.form}; as in INTERVAL 10 SECONDS")
        micros = interval_micros(node, position_of(node, self.text, self.source))
        if positive and micros <= 0:
            self.refuse(f"the {positive} of {self.name} must be longer than zero", node)
        return micros

    def column(self, node: exp.Expr) -> str:
        if not isinstance(node, exp.Identifier):
            self.refuse(f"{self.name} needs the name of a column here", node)
        position = position_of(node, self.text, self.source)
        return Placed.at(node.name, position) if position is not None else node.name

    def trailing_numbers(self) -> list[int]:
        numbers: list[int] = []
        while self.arguments and not isinstance(self.arguments[-1], exp.Identifier | exp.Tuple):
            node = self.take_last()
            if not isinstance(node, exp.Literal) or not node.name.isdigit() or int(node.name) < 1:
                self.refuse(f"{self.name} counts rows with whole numbers of at least 1", node)
            numbers.insert(0, int(node.name))
        if not 1 <= len(numbers) <= 2:
            self.refuse(f"{self.name} has too {'many' if numbers else 'few'} arguments")
        return numbers

    def keys(self) -> tuple[str, ...]:
        if not self.function.args.get("partitioned"):
            if self.arguments:
                self.refuse(f"{self.name} has too many arguments")
            return ()
        if not self.arguments:
            self.refuse(f"{self.name} has too few arguments")
        keys: list[exp.Expr] = []
        for node in self.arguments:
            keys.extend(node.expressions if isinstance(node, exp.Tuple) else [node])
        return tuple(self.column(key.this if isinstance(key, exp.Column) and not key.table else key) for key in keys)

    def refuse(self, message: str, node: exp.Expr | None = None, *, hint: str | None = None) -> NoReturn:
        raise MillstreamError(
            "BAD_WINDOW",
            message,
            hint=hint or self.form,
            position=position_of(node if node is not None else self.function, self.text, self.source),
        )
