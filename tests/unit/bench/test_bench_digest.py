"""The digest of a result: blind to the order of rows, not to any value."""

from __future__ import annotations

import duckdb
import pytest

from bench.digest import digest

RIGHT = "(VALUES (1, 0, 2, 30, 20), (2, 0, 1, 5, 5)) t(auction, window_start, n, total, top)"


def test_rows_in_another_order_and_of_other_widths_are_the_same_result() -> None:
    other = "(VALUES (2, 0, 1, 5::HUGEINT, 5), (1, 0, 2, 30, 20)) t(auction, window_start, n, total, top)"
    connection = duckdb.connect()
    found = digest(connection, "tumbling", RIGHT)
    assert found == digest(connection, "tumbling", other)
    assert {name: found[name] for name in ("groups", "n", "total", "top")} == {
        "groups": 2,
        "n": 3,
        "total": 35,
        "top": 25,
    }


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param("(2, 0, 2, 30, 20), (1, 0, 1, 5, 5)", id="values of the other auction"),
        pytest.param("(1, 9, 2, 30, 20), (2, 0, 1, 5, 5)", id="another window"),
        pytest.param("(1, 0, 1, 30, 20), (2, 0, 2, 5, 5)", id="the same sums"),
        pytest.param("(1, 0, 2, 30, 20)", id="a row less"),
    ],
)
def test_a_wrong_result_is_seen(wrong: str) -> None:
    connection = duckdb.connect()
    relation = f"(VALUES {wrong}) t(auction, window_start, n, total, top)"
    assert digest(connection, "tumbling", relation) != digest(connection, "tumbling", RIGHT)
