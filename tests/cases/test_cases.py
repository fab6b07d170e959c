"""Every `*.slt` case of this folder, under every driver that applies to it; and the harness itself."""

from __future__ import annotations

from pathlib import Path
from zlib import crc32

import pytest

import millstream as ms
from tests.conftest import Connect

from .harness import Case, CaseError, Driver, Runner, parse_case, read_case

CASES = [read_case(path) for path in sorted(Path(__file__).parent.rglob("*.slt"))]


_SAMPLED = ("restarts", "split", "merged")
"""Drivers under which a fixed third of the cases runs by default, and all of them with `-m thorough`."""


def _marks(case: Case, driver: Driver) -> tuple[pytest.MarkDecorator, ...]:
    in_sample = driver not in _SAMPLED or crc32(f"{case.name} {driver}".encode()) % 3 == 0
    return () if in_sample else (pytest.mark.thorough,)


@pytest.mark.parametrize(
    ("case", "driver"),
    [
        pytest.param(case, driver, id=f"{case.name}-{driver}", marks=_marks(case, driver))
        for case in CASES
        for driver in case.drivers()
    ],
)
def test_case(case: Case, driver: Driver, connect: Connect) -> None:
    settings = ms.EngineSettings(kernel="spark" if driver == "spark_sql" else "native")
    Runner(case, driver, lambda clock: connect(clock=clock, settings=settings)).run()


# -- wrong on purpose: the harness must refuse these -----------------------------------------------

STREAM = """
statement
CREATE STREAM s (k STRING, v BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts);
CREATE MATERIALIZED VIEW t AS SELECT k, sum(v) AS total FROM s GROUP BY k;
CREATE MATERIALIZED VIEW w AS SELECT window_start, sum(v) AS total
FROM TUMBLE(s, ts, INTERVAL 10 SECONDS) GROUP BY window_start

insert s
k | v | ts
a | 1 | 1s
b | 2 | 30s

epoch
"""
CHANGES = """
changes t
op     | k | total
upsert | a | 1
upsert | b | 2
"""
QUERY = """
query
SELECT k, total FROM t
----
k | total
a | 1
b | 2
"""
LATE = """
insert s
k | v | ts
a | 1 | 2s

epoch
"""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param(STREAM, "without an expectation", id="nothing-expected"),
        pytest.param(STREAM + QUERY.replace("b | 2", "b | 3"), "expected\n", id="wrong-value"),
        pytest.param(STREAM + QUERY.replace("b | 2\n", ""), "expected\n", id="missing-row"),
        pytest.param(STREAM + QUERY.replace("k | total", "k | sum"), "expected the columns", id="wrong-column"),
        pytest.param(STREAM + QUERY.split("----")[0], "needs ----", id="no-expected-rows"),
        pytest.param(STREAM + CHANGES.replace("upsert | b | 2\n", ""), "expected\n", id="missing-change"),
        pytest.param(STREAM + CHANGES + LATE, "unconsumed changes of t at the end", id="unconsumed-at-end"),
        pytest.param(STREAM + "\nepoch\n" + CHANGES, "unconsumed changes of t before", id="unconsumed-before-epoch"),
        pytest.param(STREAM + QUERY + LATE, "rows in s__late that no block has seen", id="late-row-unseen"),
        pytest.param(STREAM + "\nerror UNKNOWN_COLUMN\nSELECT k FROM t", "it was accepted", id="no-error"),
        pytest.param(STREAM + "\nerror BAD_WINDOW\nSELECT k FROM nothing", "expected BAD_WINDOW", id="other-error"),
        pytest.param("boundary-independent\n" + STREAM + CHANGES, "nothing is looked at", id="nothing-final"),
        pytest.param("expect\n1", "unknown block", id="unknown-block"),
    ],
)
def test_wrong_cases_are_rejected(text: str, reason: str, connect: Connect) -> None:
    with pytest.raises(CaseError, match=reason):
        Runner(parse_case("wrong", text), "as_written", lambda clock: connect(clock=clock)).run()


def test_right_case_is_accepted(connect: Connect) -> None:
    Runner(parse_case("right", STREAM + CHANGES + QUERY), "restarts", lambda clock: connect(clock=clock)).run()
