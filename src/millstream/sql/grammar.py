"""What the StreamSQL grammar rules share: places, names, options, and how an error is raised.

Owns the changes to sqlglot's Spark parser that hold in every statement:
- a syntax error carries offsets, so that it can be shown in the user's text;
- `EMIT …` after any clause ends the query instead of naming it (`FROM bids EMIT ON WATERMARK`);
- functions and intervals know where they stand.
Rules for one kind of clause are in `emit`, `definitions` and `windows`. Must not give a
statement a meaning that its text does not have.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import NoReturn, TypeVar

from sqlglot import exp
from sqlglot.errors import ParseError
from sqlglot.parser import SENTINEL_NONE
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from millstream.model.errors import MillstreamError, Placed, Position
from millstream.sql.equivalents import EQUIVALENTS
from millstream.sql.positions import place
from millstream.sql.statements import Options

_T = TypeVar("_T")

# A relation's name also names files, topics and store tables, so it stays plain.
_PLAIN_NAME = re.compile(r"[^\W\d]\w*")
# `JOIN b emit ON epoch = …` is an alias and a condition; `EMIT ON EPOCH` is followed by none of these.
_AFTER_TRIGGER = {TokenType.SENTINEL, TokenType.VAR, TokenType.WITH, TokenType.R_PAREN}

_LIKES = {TokenType.LIKE, TokenType.ILIKE, TokenType.RLIKE}
_AFTER_GROUPS = {TokenType.ALL, TokenType.ROLLUP, TokenType.CUBE}


class TextError(ParseError):
    """A syntax error at an offset. Private to the package: users see a MillstreamError."""

    def __init__(self, description: str, start: int, end: int) -> None:
        super().__init__(description)
        self.description = description
        self.start = start
        self.end = end


class Grammar(SparkParser):
    """sqlglot's Spark parser with places, names and options."""

    source = "<sql>"

    # Spark runs in ANSI mode: a cast that fails is an error, and only TRY_CAST gives NULL.
    STRICT_CAST = True
    FUNCTIONS = {**SparkParser.FUNCTIONS, **EQUIVALENTS}
    NO_PAREN_FUNCTION_PARSERS = {
        **SparkParser.NO_PAREN_FUNCTION_PARSERS,
        "ANY": lambda self: self._parse_any(),
    }

    # -- errors and places -------------------------------------------------------------------

    def raise_error(self, message: str, token: Token = SENTINEL_NONE) -> NoReturn:
        found = token or self._curr
        if not token and self.at_emit():
            message = "EMIT belongs at the end of CREATE MATERIALIZED VIEW"
            raise TextError(message, found.start, found.end + 1)
        if found:
            raise TextError(_plain(message, repr(found.text)), found.start, found.end + 1)
        end = self._prev.end + 1 if self._prev else len(self.sql)
        raise TextError(_plain(message, "the end of the statement"), end, end)

    def refusal(
        self,
        code: str,
        message: str,
        *,
        hint: str | None = None,
        first: Token = SENTINEL_NONE,
        last: Token = SENTINEL_NONE,
    ) -> MillstreamError:
        """An error at the given tokens, or at the current one."""
        return MillstreamError(code, message, hint=hint, position=self.span(first or self._curr, last))

    def found(self) -> str:
        """The current word, for a message."""
        return repr(self._curr.text) if self._curr else "nothing"

    def span(self, first: Token, last: Token = SENTINEL_NONE) -> Position:
        """The place from one token to another; the end of the statement where there is none."""
        if not first:
            end = self._prev.end + 1 if self._prev else len(self.sql)
            return Position(self.sql, end, end, self.source)
        return Position(self.sql, first.start, (last or first).end + 1, self.source)

    def placed(self, rule: Callable[[], _T]) -> tuple[_T, Position]:
        """What a rule reads, and the place it was read from."""
        first = self._curr
        result = rule()
        consumed = self._prev if first and self._prev.start >= first.start else SENTINEL_NONE
        return result, self.span(first, consumed)

    def expect(self, *words: str) -> None:
        if not self._match_text_seq(*words):
            self.raise_error(f"Expecting {' '.join(words)}")

    # -- names and options -------------------------------------------------------------------

    def relation_name(self, what: str) -> tuple[str, Position]:
        """An unqualified name of a stream, table, view or sink."""
        first = self._curr
        if not first or first.token_type == TokenType.STRING:
            self.raise_error(f"Expecting the name of a {what}")
        name = self._parse_id_var(any_token=False)
        if not isinstance(name, exp.Identifier):
            self.raise_error(f"Expecting the name of a {what}")
        if self._match(TokenType.DOT, advance=False):
            while self._match(TokenType.DOT) and self._curr:
                self._advance()
            raise self.refusal(
                "BAD_NAME", "names have one part", hint="leave out the schema", first=first, last=self._prev
            )
        if not _PLAIN_NAME.fullmatch(name.name):
            raise self.refusal(
                "BAD_NAME",
                f"{name.name!r} cannot name a {what}",
                hint="use letters, digits and underscores, and begin with a letter",
                first=first,
            )
        return name.name, self.span(first)

    def column_name(self) -> tuple[str, Token]:
        token = self._curr
        name = None if token.token_type == TokenType.STRING else self._parse_id_var(any_token=True)
        if not isinstance(name, exp.Identifier) or not name.name:
            self.raise_error("Expecting the name of a column", token)
        return name.name, token

    def wrapped_column_names(self) -> list[tuple[str, Token]]:
        return self._parse_wrapped_csv(self.column_name)

    def options(self, given: Options = ()) -> Options:
        """`WITH (key = value, …)` if it is there, after those given before."""
        if not self._match_text_seq("WITH", "(", advance=False):
            return given
        self._advance()
        seen = {key.lower() for key, _ in given}

        def option() -> tuple[str, str]:
            first = self._curr
            key, place = self.placed(self._option_key)
            if key.lower() in seen:
                raise self.refusal("DUPLICATE_OPTION", f"option {key!r} is given twice", first=first, last=self._prev)
            seen.add(key.lower())
            if not self._match(TokenType.EQ):
                self.raise_error("Expecting =")
            value, value_place = self.placed(self._option_value)
            return Placed.at(key, place), Placed.at(value, value_place)

        return (*given, *self._parse_wrapped_csv(option))

    def _option_key(self) -> str:
        parts: list[str] = []
        while True:
            if self._curr.token_type in self.RESERVED_TOKENS or not self._curr:
                self.raise_error("Expecting the name of an option")
            parts.append(self._curr.text)
            self._advance()
            if not self._match(TokenType.DOT):
                return ".".join(parts)

    def _option_value(self) -> str:
        first = self._curr
        sign = "-" if self._match(TokenType.DASH) else ""
        if self._match(TokenType.NUMBER):
            return sign + self._prev.text
        if not sign and self._match_set((TokenType.STRING, TokenType.RAW_STRING)):
            return self._prev.text
        if not sign and self._match_set((TokenType.TRUE, TokenType.FALSE)):
            return self._prev.text.lower()
        raise self.refusal(
            "SYNTAX_ERROR",
            "the value of an option is a string, a number, TRUE or FALSE",
            hint=f"write '{first.text}' in quotes" if first.token_type == TokenType.VAR else None,
            first=first,
        )

    # -- changes to rules of Spark SQL -------------------------------------------------------

    def at_emit(self) -> bool:
        """Whether an EMIT clause begins here, as opposed to something called `emit`."""
        if self._curr.token_type != TokenType.VAR or self._curr.text.upper() != "EMIT":
            return False
        if self._next.token_type == TokenType.VAR:
            return True
        ahead = [*self._tokens[self._index + 2 : self._index + 4], SENTINEL_NONE, SENTINEL_NONE]
        return (
            self._next.token_type == TokenType.ON
            and ahead[0].text.upper() in ("EPOCH", "WATERMARK")
            and ahead[1].token_type in _AFTER_TRIGGER
        )

    def _parse_id_var(self, any_token: bool = True, tokens: Collection[TokenType] | None = None) -> exp.Expr | None:
        if not any_token and self.at_emit():
            return None
        return super()._parse_id_var(any_token=any_token, tokens=tokens)

    def _parse_column(self) -> exp.Expr | None:
        # After GROUP BY ALL and WITH ROLLUP sqlglot looks for further grouping expressions.
        if self._prev.token_type in _AFTER_GROUPS and self.at_emit():
            return None
        return super()._parse_column()

    def _parse_any(self) -> exp.Expr:
        """`any(condition)`, the aggregate; sqlglot knows only `= ANY (subquery)`."""
        like = self._tokens[self._index - 2].token_type in _LIKES if self._index > 1 else False
        wrapped = self._match(TokenType.L_PAREN, advance=False)
        if like or not wrapped or self._next.token_type in self.SUBQUERY_TOKENS:
            return self.expression(exp.Any(this=self._parse_bitwise()))
        return self.expression(exp.LogicalOr(this=self._parse_wrapped(self._parse_disjunction)))

    def _parse_table_hints(self) -> list[exp.Expr] | None:
        # `FROM t WITH (…)` would read the options of a view as T-SQL hints.
        return None

    def _parse_hint(self) -> exp.Hint | None:
        if self._match(TokenType.HINT, advance=False):
            raise self.refusal("HINT_NOT_ALLOWED", "optimizer hints are not part of StreamSQL", hint="remove the hint")
        return None

    def _parse_function_call(
        self,
        functions: dict[str, Callable[..., exp.Expr]] | None = None,
        anonymous: bool = False,
        optional_parens: bool = True,
        any_token: bool = False,
    ) -> exp.Expr | None:
        token = self._curr
        try:
            call = super()._parse_function_call(functions, anonymous, optional_parens, any_token)
        except TextError:
            raise
        except (ParseError, IndexError, AttributeError, ValueError) as error:
            # sqlglot's builders trust the number and the kind of arguments.
            reason = str(error) if isinstance(error, ParseError) else "wrong arguments"
            raise TextError(f"{token.text}: {reason}", token.start, token.end + 1) from None
        if call is not None and "start" not in call.meta:
            call.update_positions(token)
        return call

    def _parse_interval(
        self, require_interval: bool = True, parse_function_unit: bool = True
    ) -> exp.Add | exp.Interval | None:
        first = self._curr
        interval = super()._parse_interval(require_interval, parse_function_unit)
        if interval is not None:
            place(interval, first, self._prev)
        return interval

    def _parse_placeholder(self) -> exp.Expr | None:
        first = self._curr
        node = super()._parse_placeholder()
        if node is not None:
            place(node, first, self._prev)
        return node

    def _parse_parameter(self) -> exp.Parameter:
        first = self._prev
        node = super()._parse_parameter()
        place(node, first, self._prev)
        return node

    def _parse_table(
        self,
        schema: bool = False,
        joins: bool = False,
        alias_tokens: Collection[TokenType] | None = None,
        parse_bracket: bool = False,
        is_db_reference: bool = False,
        parse_partition: bool = False,
        consume_pipe: bool = False,
    ) -> exp.Expr | None:
        table = super()._parse_table(
            schema, joins, alias_tokens, parse_bracket, is_db_reference, parse_partition, consume_pipe
        )
        # Spark SQL has the alias after FOR SYSTEM_TIME AS OF, other engines before it.
        if isinstance(table, exp.Table) and not table.args.get("version"):
            table.set("version", self._parse_version())
        return table


def _plain(message: str, found: str) -> str:
    """sqlglot's message in our words: lower case, one line, no Python class names."""
    if message.startswith("Expecting "):
        return f"expected {message.removeprefix('Expecting ')} but found {found}"
    if message.startswith("Expected TYPE"):
        return f"expected a type but found {found}"
    if message.startswith("Expected table name"):
        return f"expected the name of a relation but found {found}"
    if message.startswith(("Required ", "Expected")):
        return f"incomplete expression before {found}"
    if message.startswith("The number of provided arguments"):
        return f"too many arguments before {found}"
    if "Unexpected token" in message:
        return f"unexpected {found}"
    first_line = message.splitlines()[0] if message else "not understood"
    return f"{first_line[:1].lower()}{first_line[1:]} near {found}"
