"""The queries on an input that another project published, against the rows that it expects.

So is the oracle of the other tests, which saves them from agreeing with Millstream on a mistake.
"""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import millstream as ms
from millstream.model.settings import Kernel
from millstream.nexmark.files import KINDS
from tests.conftest import Connect

from .compare import columns_of, difference, read_tsv
from .oracle import answer
from .queries import QUERIES, create, marked

DATA = Path(__file__).parents[1] / "data" / "conformance" / "nexmark"
EXPECTED = {path.stem: path for path in (DATA / "expected").glob("*.tsv")}
PUBLISHED = [query for query in QUERIES if query in EXPECTED]


def lines_of(kind: str) -> list[bytes]:
    return (DATA / f"{kind}.jsonl").read_bytes().splitlines()


def test_every_expectation_is_used() -> None:
    assert len(EXPECTED) == 11
    assert set(PUBLISHED) == set(EXPECTED)


@pytest.mark.parametrize("kernel", ["native", "spark"])
@pytest.mark.parametrize("query", marked(PUBLISHED))
def test_published_rows(connect: Connect, query: str, kernel: Kernel) -> None:
    db = connect(settings=ms.EngineSettings(kernel=kernel))
    create(db, query)
    for kind in KINDS:
        db.insert_lines(kind, lines_of(kind))
    db.drain()
    path = EXPECTED[query]
    actual = db.query(f"SELECT {', '.join(columns_of(path))} FROM {query}").to_arrow()
    assert difference(actual, read_tsv(path, actual)) is None


@pytest.mark.parametrize("query", PUBLISHED)
def test_published_rows_of_the_oracle(query: str) -> None:
    tables = {
        kind: pa.Table.from_pylist([json.loads(line) for line in lines_of(kind)]).select(schema.names).cast(schema)
        for kind, schema in KINDS.items()
    }
    path = EXPECTED[query]
    actual = answer(query, tables).select(columns_of(path))
    assert difference(actual, read_tsv(path, actual)) is None
