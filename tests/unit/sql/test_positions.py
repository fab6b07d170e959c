"""Nodes of a query know where they stand in the script."""

from __future__ import annotations

import pytest
from sqlglot import exp

from millstream.sql import parse_script, position_of
from millstream.sql.statements import CreateView

SCRIPT = """SHOW STREAMS;
CREATE VIEW v AS
SELECT auction, lower(channel) AS c, CAST(price AS INT) AS p, a + b AS s
FROM TUMBLE(bids, ts, INTERVAL 10 SECONDS) WHERE x > 5 AND ts > y - INTERVAL 1 HOUR
GROUP BY `auction`
"""


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (exp.Column, "auction"),
        (exp.Lower, "lower"),
        (exp.Cast, "CAST"),
        (exp.Add, "a + b"),
        (exp.GT, "x > 5"),
        (exp.Literal, "5"),
        (exp.Sub, "y - INTERVAL 1 HOUR"),
        (exp.Table, "TUMBLE(bids, ts, INTERVAL 10 SECONDS)"),
        (exp.Interval, "INTERVAL 10 SECONDS"),
        (exp.Group, "`auction`"),
    ],
)
def test_position_of_a_node(kind: type[exp.Expr], text: str) -> None:
    view = parse_script(SCRIPT, "v.sql")[1]
    assert isinstance(view, CreateView)
    node = view.query.find(kind) if kind is not exp.Literal else view.query.find(exp.GT).expression  # type: ignore[union-attr]
    assert node is not None
    position = position_of(node, SCRIPT, "v.sql")
    assert position is not None
    assert SCRIPT[position.start : position.end] == text
    assert position.source == "v.sql"


def test_positions_survive_a_copy() -> None:
    view = parse_script(SCRIPT)[1]
    assert isinstance(view, CreateView)
    column = view.query.copy().find(exp.Column)
    assert column is not None
    position = position_of(column, SCRIPT)
    assert position is not None
    assert (position.line, position.column) == (3, 8)


def test_a_node_that_was_not_parsed_has_none() -> None:
    assert position_of(exp.column("a"), "SELECT a") is None
    parsed = parse_script(SCRIPT)[1]
    assert isinstance(parsed, CreateView)
    assert position_of(parsed.query, "short") is None
