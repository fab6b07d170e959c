"""Text → statements.

Owns the entry points and the promise that every failure is a `MillstreamError` with a position in
the user's text: sqlglot's own errors never leave this module. Parsing does not check which
functions a query calls (see `millstream.sql.functions`), nor whether names exist.
"""

from __future__ import annotations

import re

from sqlglot.errors import SqlglotError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from millstream.model.errors import MillstreamError, Position
from millstream.sql.dialect import StreamSQL
from millstream.sql.grammar import TextError
from millstream.sql.parser import StreamParser
from millstream.sql.statements import Statement


def parse_script(text: str, source: str = "<sql>") -> tuple[Statement, ...]:
    """Every statement of a text, in order; positions are into the whole text."""
    dialect = StreamSQL()
    parser = StreamParser(dialect=dialect)
    try:
        return parser.statements(_tokens(dialect, text, source), text, source)
    except TextError as problem:
        raise MillstreamError(
            "SYNTAX_ERROR",
            problem.description,
            position=Position(text, problem.start, problem.end, source),
        ) from None
    except MillstreamError:
        raise
    except RecursionError:
        raise MillstreamError(
            "SYNTAX_ERROR",
            "the statement is nested too deeply",
            hint="split it into several views",
            position=Position(text, 0, 0, source),
        ) from None
    except (SqlglotError, AttributeError, LookupError, TypeError, ValueError, AssertionError) as error:
        # sqlglot meets text that it does not foresee in many ways; none of them is the user's concern.
        raise MillstreamError(
            "SYNTAX_ERROR", "this text is not understood", position=parser.span(parser._curr)
        ) from error


def split_script(text: str, source: str = "<sql>") -> tuple[str, ...]:
    """The text once per statement, with all others blanked out: positions in each are positions in the text.

    >>> split_script("SELECT 1; SELECT 2")
    ('SELECT 1          ', '          SELECT 2')
    """
    chunks: list[list[Token]] = [[]]
    for token in _tokens(StreamSQL(), text, source):
        if token.token_type == TokenType.SEMICOLON:
            chunks.append([])
        else:
            chunks[-1].append(token)
    return tuple(_alone(text, chunk[0].start, chunk[-1].end + 1) for chunk in chunks if chunk)


def _alone(text: str, start: int, end: int) -> str:
    before, after = (re.sub(r"[^\n]", " ", part) for part in (text[:start], text[end:]))
    return f"{before}{text[start:end]}{after}"


def parse_statement(text: str, source: str = "<sql>") -> Statement:
    """The one statement of a text."""
    statements = parse_script(text, source)
    if len(statements) != 1:
        count = "no statement" if not statements else f"{len(statements)} statements"
        raise MillstreamError("SYNTAX_ERROR", f"expected one statement but found {count}")
    return statements[0]


def _tokens(dialect: StreamSQL, text: str, source: str) -> list[Token]:
    tokenizer = dialect.tokenizer()
    try:
        return tokenizer.tokenize(text)
    except TokenError as error:
        # The token that never ended begins where the scanner stood when it began it.
        start = getattr(tokenizer._core, "_start", error.start or 0)
        raise MillstreamError(
            "SYNTAX_ERROR",
            "the text ends inside a string, a quoted name or a comment",
            hint="close the quote or the comment",
            position=Position(text, start, min(start + 1, len(text)), source),
        ) from None
