"""Every function of the table gives the same on Spark and in the store, over the edges of its arguments."""

from __future__ import annotations

import math
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import millstream as ms
from millstream.sql.allowlist import NOTES, SCALARS
from millstream.sql.signatures import OPERATORS, REFUSED, SIGNATURES, forms
from tests.integration.agreement import FAILED, Call, Difference, compare, store_refuses
from tests.parts import spark_of, store_of

pytestmark = pytest.mark.spark

TEMPLATES = {**OPERATORS, **SIGNATURES}
# The store fails where Spark computes; the note of each says when.
STORE_FAILS = {"*", "cast", "from_unixtime", "timestamp_micros"}
# Functions of rows, which `test_queries_agree` has.
OF_ROWS = {"explode"}


def calls_of(name: str) -> list[Call]:
    return list(dict.fromkeys(Call(*form) for template in TEMPLATES[name] for form in forms(template)))


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ms.Database]:
    with ms.connect(tmp_path_factory.mktemp("agree") / "db") as db:
        yield db


@pytest.fixture(scope="module")
def found(database: ms.Database) -> dict[Call, list[Difference]]:
    """All calls in few jobs: one by one they would take many minutes."""
    calls = [call for name in TEMPLATES for call in calls_of(name)]
    return compare(spark_of(database).session(), store_of(database).cursor(), calls)


def test_every_function_has_its_forms() -> None:
    assert set(SIGNATURES) == set(SCALARS) - OF_ROWS
    assert set(NOTES) >= STORE_FAILS


@pytest.mark.parametrize("name", TEMPLATES)
def test_spark_and_the_store_agree(name: str, found: dict[Call, list[Difference]]) -> None:
    problems = [
        f"{call}: {difference}"
        for call in calls_of(name)
        for difference in found[call]
        if not is_noted(name, call, difference)
    ]
    assert not problems, "\n".join(problems[:20])


@pytest.mark.parametrize("template", REFUSED)
def test_the_store_refuses_what_it_has_no_like_of(template: str, database: ms.Database) -> None:
    for form in forms(template):
        assert store_refuses(store_of(database), Call(*form)) == "ARGUMENT_NOT_ALLOWED"


def is_noted(name: str, call: Call, difference: Difference) -> bool:
    """Whether the documented table says so."""
    if name in STORE_FAILS and difference.in_store == FAILED and difference.on_spark != FAILED:
        return True
    if str(call) in REALS_TO_TEXT and java_version() < 19:
        # Older Javas print digits that are not needed to tell the number from its neighbours.
        return same_number(difference.on_spark, difference.in_store, single="FLOAT" in str(call))
    return False


REALS_TO_TEXT = {"cast(DOUBLE AS STRING)", "cast(FLOAT AS STRING)", "string(DOUBLE)"}


def same_number(a: Any, b: Any, *, single: bool) -> bool:
    import numpy as np

    if not isinstance(a, bytes) or not isinstance(b, bytes):
        return False
    kind = np.float32 if single else np.float64
    return bool(kind(a) == kind(b)) and math.isfinite(float(a))


def java_version() -> int:
    answer = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr
    return int(answer.split('"')[1].split(".")[0])


def test_the_comparison_finds_differences(database: ms.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A comparison that finds nothing proves nothing: here the store computes with DuckDB's own functions."""
    calls = [
        Call("a0 / a1", ("INT", "INT")),
        Call("lower(a0)", ("STRING",)),
        Call("date_add(a0, a1)", ("DATE", "COUNT")),
        Call("substr(a0, a1, a2)", ("STRING", "COUNT", "COUNT")),
        Call("cast(a0 AS INT)", ("DOUBLE",)),
    ]
    monkeypatch.setattr("tests.integration.agreement.store_sql", lambda node: node.sql("duckdb"))
    found = compare(spark_of(database).session(), store_of(database).cursor(), calls)
    assert all(found[call] for call in calls)


def test_the_table_is_in_the_docs() -> None:
    page = (Path(__file__).parents[2] / "docs" / "functions.md").read_text()
    assert all(f"| `{name}` |" in page for name in SIGNATURES)
