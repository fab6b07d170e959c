"""What stands in the parentheses of CREATE STREAM and CREATE TABLE.

Owns columns, watermark, clock correction and primary key, and their agreement: column names are
unique without regard to case, and whatever names a column names one that exists and is of the
right type. Names are kept as the column spells them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa
from sqlglot import exp
from sqlglot.errors import ParseError
from sqlglot.parser import SENTINEL_NONE
from sqlglot.tokenizer_core import Token, TokenType

from millstream.model.errors import MillstreamError, Position, did_you_mean
from millstream.model.schema import TIMESTAMP, Column, Schema
from millstream.sql import replacements
from millstream.sql.column_types import TYPE_NAMES, arrow_type
from millstream.sql.grammar import Grammar
from millstream.sql.intervals import interval_micros
from millstream.sql.statements import ClockCorrection, Watermark

_TYPE_ARGUMENTS = "DECIMAL(precision up to 38, scale), ARRAY<type>, MAP<key, value>, STRUCT<name: type>, VARCHAR(n)"


@dataclass(slots=True)
class Definition:
    """The parts read so far; `later` holds the checks that need all columns."""

    columns: list[Column] = field(default_factory=list)
    watermark: Watermark | None = None
    correction: ClockCorrection | None = None
    primary_key: tuple[str, ...] = ()
    later: list[Callable[[], None]] = field(default_factory=list)

    @property
    def schema(self) -> Schema:
        return Schema(tuple(self.columns))


class DefinitionGrammar(Grammar):
    """The rules of column lists."""

    def definition(self, kind: str) -> Definition:
        parts = Definition()
        if not self._match(TokenType.L_PAREN):
            self.raise_error("Expecting ( and the columns")
        while True:
            self._element(parts, kind)
            if not self._match(TokenType.COMMA):
                break
        self._match_r_paren()
        if not parts.columns:
            raise self.refusal("NO_COLUMNS", f"a {kind} needs at least one column", first=self._prev)
        for check in parts.later:
            check()
        return parts

    def _element(self, parts: Definition, kind: str) -> None:
        first = self._curr
        if self._match_text_seq("WATERMARK", "FOR"):
            if parts.watermark is not None:
                raise self.refusal("DUPLICATE_WATERMARK", f"a {kind} has one watermark", first=first, last=self._prev)
            parts.watermark = self._watermark(parts)
        elif self._match_text_seq("EVENT", "TIME"):
            self._stream_only(kind, "EVENT TIME", first)
            if parts.correction is not None:
                raise self.refusal("DUPLICATE_CORRECTION", "event time is corrected once", first=first, last=self._prev)
            parts.correction = self._correction(parts)
        elif self._match(TokenType.PRIMARY_KEY):
            self._primary_key(parts, kind, self.wrapped_column_names(), first)
        else:
            self._column(parts, kind)

    def _stream_only(self, kind: str, clause: str, first: Token) -> None:
        if kind != "stream":
            raise self.refusal("NOT_A_STREAM", f"{clause} belongs to a stream", first=first, last=self._prev)

    # -- columns -----------------------------------------------------------------------------

    def _column(self, parts: Definition, kind: str) -> None:
        name, token = self.column_name()
        if parts.schema.find(name) is not None:
            raise self.refusal("DUPLICATE_COLUMN", f"column {name!r} is defined twice", first=token)
        parts.columns.append(Column(name, self.type_of(f"column {name!r}")))
        first = self._curr
        if self._match(TokenType.PRIMARY_KEY):
            self._primary_key(parts, kind, [(name, token)], first)
        elif not self._match_set((TokenType.COMMA, TokenType.R_PAREN), advance=False):
            raise self.refusal(
                "SYNTAX_ERROR",
                f"unexpected {self.found()} after the type of column {name!r}",
                hint="a column has a name and a type, and in a table it may be the PRIMARY KEY",
            )

    def type_of(self, what: str) -> pa.DataType:
        """A type, of what is named in the error when there is none."""
        first = self._curr
        if not first or first.token_type in (TokenType.COMMA, TokenType.R_PAREN):
            raise self.refusal("SYNTAX_ERROR", f"{what} has no type", hint="as in price BIGINT")
        try:
            parsed = self._parse_types(schema=True)
        except ParseError:
            # Inside ARRAY<…> the parser stops at the word that is no type, or at its field's name.
            if self._curr.token_type != TokenType.VAR:
                raise
            skipped = {TokenType.COLON: 2, TokenType.VAR: 1}.get(self._next.token_type, 0)
            parsed, first = None, self._tokens[min(self._index + skipped, self._tokens_size - 1)]
        if parsed is None:
            raise self._unknown_type(first, first)
        type_ = arrow_type(parsed)
        if type_ is None:
            raise self._unknown_type(first, self._prev)
        return type_

    def _unknown_type(self, first: Token, last: Token) -> MillstreamError:
        text = self.sql[first.start : last.end + 1]
        known = first.text.lower() in TYPE_NAMES
        return self.refusal(
            "UNKNOWN_TYPE",
            f"{text} is not a type of StreamSQL",
            hint=_TYPE_ARGUMENTS if known else replacements.TYPES.get(text.lower()) or did_you_mean(text, TYPE_NAMES),
            first=first,
            last=last,
        )

    # -- clauses that name columns -----------------------------------------------------------

    def _known(self, parts: Definition, name: str, position: Position, *, timestamp: bool) -> Column:
        column = parts.schema.find(name)
        if column is None:
            raise MillstreamError(
                "UNKNOWN_COLUMN",
                f"there is no column {name!r}",
                hint=did_you_mean(name, parts.schema.names()),
                position=position,
            )
        if timestamp and column.type != TIMESTAMP:
            raise MillstreamError(
                "NOT_A_TIMESTAMP",
                f"column {column.name!r} is not a TIMESTAMP",
                hint="event time is a TIMESTAMP column",
                position=position,
            )
        return column

    def _check_timestamps(self, parts: Definition, *names: tuple[str, Token]) -> None:
        places = [(name, self.span(token)) for name, token in names]

        def check() -> None:
            for name, position in places:
                self._known(parts, name, position, timestamp=True)

        parts.later.append(check)

    def _watermark(self, parts: Definition) -> Watermark:
        name, token = self.column_name()
        self._check_timestamps(parts, (name, token))
        if self._match_text_seq("AT", "PERCENTILE"):
            number = self._curr
            if not self._match(TokenType.NUMBER) or not 0 < float(number.text) <= 1:
                raise self.refusal(
                    "BAD_WATERMARK",
                    "the percentile is a number above 0 and up to 1",
                    hint=f"as in WATERMARK FOR {name} AT PERCENTILE 0.99",
                    first=number,
                )
            return Watermark(name, percentile=float(number.text))
        if not self._match(TokenType.ALIAS):
            self.raise_error("Expecting AS or AT PERCENTILE")
        expression, position = self.placed(self._parse_disjunction)
        return Watermark(name, slack=_slack(name, expression, position))

    def _correction(self, parts: Definition) -> ClockCorrection:
        column = self.column_name()
        self.expect("CORRECTED", "BY")
        first = self._curr
        clocks = self.wrapped_column_names()
        if len(clocks) != 2:
            raise self.refusal(
                "BAD_CORRECTION",
                "CORRECTED BY takes two columns",
                hint="CORRECTED BY (sent_at, received_at)",
                first=first,
                last=self._prev,
            )
        self._check_timestamps(parts, column, *clocks)
        return ClockCorrection(column[0], clocks[0][0], clocks[1][0])

    def _primary_key(
        self, parts: Definition, kind: str, names: list[tuple[str, Token]], first: Token = SENTINEL_NONE
    ) -> None:
        last = self._prev
        if kind != "table":
            raise self.refusal(
                "NOT_A_TABLE",
                f"a {kind} has no primary key",
                hint="rows with a key are a table: CREATE TABLE",
                first=first,
                last=last,
            )
        if parts.primary_key:
            raise self.refusal("DUPLICATE_KEY", "a table has one primary key", first=first, last=last)
        parts.primary_key = tuple(name for name, _ in names)
        if len({name.lower() for name in parts.primary_key}) < len(names):
            raise self.refusal("DUPLICATE_KEY", "a column is in the primary key twice", first=first, last=last)
        places = [(name, self.span(token)) for name, token in names]

        def check() -> None:
            parts.primary_key = tuple(
                self._known(parts, name, position, timestamp=False).name for name, position in places
            )

        parts.later.append(check)


def _slack(column: str, expression: exp.Expr | None, position: Position) -> int:
    """The slack of `column` or `column - INTERVAL …`."""

    def names_column(node: object) -> bool:
        return isinstance(node, exp.Column) and not node.table and node.name.lower() == column.lower()

    if names_column(expression):
        return 0
    if isinstance(expression, exp.Sub) and names_column(expression.this):
        slack = interval_micros(expression.expression, position)
        if slack >= 0:
            return slack
        raise MillstreamError("BAD_WATERMARK", "the slack of a watermark cannot be negative", position=position)
    raise MillstreamError(
        "BAD_WATERMARK",
        "a watermark is its column minus an interval",
        hint=f"WATERMARK FOR {column} AS {column} - INTERVAL 5 SECONDS",
        position=position,
    )
