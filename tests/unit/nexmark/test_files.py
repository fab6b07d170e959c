"""The generator's files: every format holds the same rows, and nobody sees half a file."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from millstream.cli.datagen import nexmark as datagen
from millstream.model.errors import MillstreamError
from millstream.nexmark.files import KINDS, write_files
from millstream.nexmark.formats import FileFormat
from millstream.nexmark.generator import BLOCK, Nexmark
from millstream.nexmark.settings import Settings

SETTINGS = Settings(seed=9, rate=1_000, disorder=2_000_000)
EVENTS = 10_001


def read(path: Path, schema: pa.Schema) -> pa.Table:
    match path.suffix:
        case ".parquet":
            return pq.read_table(path).cast(schema)
        case ".csv":
            options = pa_csv.ReadOptions(column_names=schema.names)
            types = {field.name: field.type for field in schema}
            convert = pa_csv.ConvertOptions(column_types=types, strings_can_be_null=False)
            return pa_csv.read_csv(path, options, convert_options=convert)
        case _:
            rows = [json.loads(line) for line in path.read_text().splitlines()]
            table = pa.Table.from_pylist(rows)
            return table.select(schema.names).cast(schema)


@pytest.mark.parametrize("format", FileFormat)
def test_every_format_holds_the_events(tmp_path: Path, format: FileFormat) -> None:
    told: list[int] = []
    rows = write_files(Nexmark(SETTINGS), EVENTS, tmp_path, format=format, files=3, written=told.append)
    assert sum(told) == sum(rows.values()) == EVENTS
    expected = Nexmark(SETTINGS).events(0, EVENTS).tables()
    for kind, schema in KINDS.items():
        files = sorted((tmp_path / kind).iterdir())
        assert len(files) == 3
        table = pa.concat_tables([read(path, schema) for path in files])
        assert table.num_rows == rows[kind]
        assert table.equals(expected[kind]), kind


def test_instants_in_parquet_have_their_zone(tmp_path: Path) -> None:
    write_files(Nexmark(), 100, tmp_path)
    assert pq.read_schema(tmp_path / "bid" / "bid-00000.parquet").field("date_time").type == pa.timestamp("us", "UTC")


def test_a_file_has_its_name_when_it_is_complete(tmp_path: Path) -> None:
    seen: list[list[str]] = []

    def look(_: int) -> None:
        seen.append([name for kind in KINDS for name in os.listdir(tmp_path / kind)])

    write_files(Nexmark(), 25 * BLOCK, tmp_path, files=2, written=look)
    assert len(seen) > 2
    assert all(name.startswith(".") for name in seen[0])
    assert [name for name in seen[-1] if not name.startswith(".")] == [f"{kind}-00000.parquet" for kind in KINDS]

    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(MillstreamError, match="No space left on device") as caught:
        write_files(Nexmark(), 100, tmp_path / "full", written=fail)
    assert caught.value.code == "FILE_NOT_WRITABLE"
    assert [list((tmp_path / "full" / kind).iterdir()) for kind in KINDS] == [[], [], []]


def test_rows_of_two_runs_are_not_mixed(tmp_path: Path) -> None:
    write_files(Nexmark(), 100, tmp_path)
    with pytest.raises(MillstreamError) as caught:
        write_files(Nexmark(), 100, tmp_path)
    assert caught.value.code == "OUTPUT_EXISTS"
    assert caught.value.hint


@pytest.mark.parametrize("wrong", [{"events": 0}, {"events": 10, "files": 0}, {"events": 10, "files": 11}])
def test_what_cannot_be_written(tmp_path: Path, wrong: dict[str, int]) -> None:
    with pytest.raises(MillstreamError) as caught:
        write_files(Nexmark(), directory=tmp_path, **wrong)  # type: ignore[arg-type]
    assert caught.value.code == "BAD_OPTION"
    assert not list(tmp_path.iterdir())


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = {"seed": 9, "rate": 1_000, "format": FileFormat.CSV, "files": 2}
    datagen(1_000, tmp_path, start="2024-05-01 10:00:00", disorder="1 second", **options)  # type: ignore[arg-type]
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "2024-05-01 10:00:00 to 2024-05-01 10:00:01" in shown.err
    bids = read(tmp_path / "bid" / "bid-00000.csv", KINDS["bid"])
    start_at = 1_714_557_600_000_000
    expected = Nexmark(Settings(seed=9, rate=1_000, start_at=start_at, disorder=1_000_000)).events(0, 500)
    assert bids.equals(expected.bid)
    for start, disorder, code in (("yesterday", "0 seconds", "BAD_OPTION"), (None, "much", "BAD_DURATION")):
        with pytest.raises(MillstreamError) as caught:
            datagen(10, tmp_path / "other", start=start, disorder=disorder, **options)  # type: ignore[arg-type]
        assert caught.value.code == code
        assert caught.value.hint
