"""What it means that the builder and a text say the same, and that misuse is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from sqlglot import exp

import millstream as ms
from millstream.builder.relations import Relation
from millstream.sql import check_query, parse_statement, render
from millstream.sql.statements import CreateView


def same(relation: Relation, text: str, **options: object) -> None:
    """The statement of a relation is that of a text: the same tree, and the same canonical text."""
    built = relation.statement("v", **options)  # type: ignore[arg-type]
    parsed = parse_statement(text if text.startswith("CREATE") else f"CREATE VIEW v AS {text}")
    assert isinstance(parsed, CreateView)
    assert render(built) == render(parsed)
    assert built.query == parsed.query
    assert replace(built, query=parsed.query) == parsed
    check_query(built.query, text=render(built))
    check_round_trip(built)


def check_round_trip(statement: CreateView) -> None:
    """Its canonical text parses to an equal statement, whose places are places in that text."""
    text = render(statement)
    again = parse_statement(text)
    assert again == statement
    assert statement.position is not None
    assert statement.position.text == text


def refused(code: str, misuse: Callable[[], object]) -> None:
    """A call is refused with a code, in a sentence that can stand after it."""
    with pytest.raises(ms.MillstreamError) as caught:
        misuse()
    assert caught.value.code == code
    assert caught.value.message[0].islower() or not caught.value.message[0].isalpha()


def bare(node: exp.Expr) -> exp.Expr:
    """A copy without parentheses, which only say what the tree says anyway."""
    return node.copy().transform(lambda part: part.unnest() if isinstance(part, exp.Paren) else part)
