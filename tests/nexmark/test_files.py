"""From the command to an answer: generated files, the streams over them, a query."""

from __future__ import annotations

from pathlib import Path

import pytest

from millstream.cli.datagen import nexmark as datagen
from millstream.nexmark.formats import FileFormat
from millstream.nexmark.generator import Nexmark
from millstream.nexmark.settings import Settings
from tests.conftest import Connect

from .checks import check_no_letters, check_view
from .queries import EXAMPLES

EVENTS = 5_000


@pytest.mark.parametrize("format", FileFormat)
def test_streams_over_generated_files(
    connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: FileFormat
) -> None:
    monkeypatch.chdir(tmp_path)
    options = {"seed": 4, "rate": 500, "start": None, "disorder": "3 seconds", "files": 3}
    datagen(EVENTS, Path("nexmark-data"), format=format, **options)  # type: ignore[arg-type]
    db = connect()
    streams = (EXAMPLES / "streams_files.sql").read_text("utf-8")
    assert streams.count("'parquet'") == 3
    db.sql(streams.replace("'parquet'", f"'{format}'"))
    for query in ("q17", "q21"):
        db.sql((EXAMPLES / f"{query}.sql").read_text("utf-8"))
    db.drain()
    rows = Nexmark(Settings(seed=4, rate=500, disorder=3_000_000)).events(0, EVENTS).tables()
    for query in ("q17", "q21"):
        check_view(db, query, rows)
    check_no_letters(db)
