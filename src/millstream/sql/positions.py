"""Where a parsed piece of a query stands in the user's text.

Owns the way from a sqlglot node to a `Position`. Offsets are into the whole text that was parsed,
a script of many statements included, so an excerpt always shows the user's own line. Must not
raise: a node that was built and not parsed simply has no position.
"""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import Token

from millstream.model.errors import Position


def position_of(node: exp.Expr, text: str, source: str = "<sql>") -> Position | None:
    """The place of a node: its own, or the span from its first to its last placed descendant."""
    span = _own_span(node)
    if span is None:
        spans = [found for child in node.walk() if (found := _own_span(child)) is not None]
        if not spans:
            return None
        span = (min(start for start, _ in spans), max(end for _, end in spans))
    start, end = span
    if not 0 <= start <= end <= len(text):
        return None
    return Position(text, start, end, source)


def place(node: exp.Expr, first: Token, last: Token) -> None:
    """Note on a node that it spans two tokens of the text and what is between them."""
    node.update_positions(line=first.line, col=first.col, start=first.start, end=last.end)


def _own_span(node: exp.Expr) -> tuple[int, int] | None:
    start, end = node.meta.get("start"), node.meta.get("end")
    if isinstance(start, int) and isinstance(end, int):
        return start, end + 1  # sqlglot's end is the last character
    return None
