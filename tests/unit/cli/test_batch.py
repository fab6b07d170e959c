"""`millstream sql -c`, without Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import millstream as ms
from millstream.cli.batch import run_statements
from millstream.cli.formats import Format, StatusFormat
from millstream.cli.status import show_status


def test_a_script_that_only_reads_creates_no_directory(tmp_path: Path) -> None:
    data = tmp_path / "typo"
    with pytest.raises(ms.MillstreamError, match="there is no Millstream data"):
        run_statements(data, "SHOW STREAMS; SELECT 1", "<command>", Format.TABLE)
    assert not data.exists()


def test_every_value_of_a_column_has_one_json_type(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (
        "CREATE STREAM s (k STRING);"
        "SELECT * FROM (VALUES (CAST(12.50 AS DECIMAL(10, 2)), 1), (CAST(3.00 AS DECIMAL(10, 2)), 2)) AS t(amount, n)"
    )
    run_statements(tmp_path / "data", text, "<command>", Format.JSON)
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert rows == [{"amount": "12.50", "n": 1}, {"amount": "3.00", "n": 2}]


def test_status_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "data"
    run_statements(data, "CREATE TABLE t (id BIGINT PRIMARY KEY)", "<command>", Format.TABLE)
    capsys.readouterr()
    show_status(data, StatusFormat.JSON)
    status = json.loads(capsys.readouterr().out)
    assert (status["epoch"], status["views"], status["failure"]) == (0, [], None)
    (table,) = status["streams"]
    assert (table["name"], table["is_table"], table["waiting"], table["late"], table["dead"]) == ("t", True, 0, 0, 0)
    assert status["bytes"] > 0
