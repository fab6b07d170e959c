"""One process owns a data directory."""

from __future__ import annotations

from pathlib import Path

import pytest

import millstream as ms

from .workers import Worker

pytestmark = pytest.mark.spark


def test_the_second_process_is_refused(tmp_path: Path, jvm: dict[str, str]) -> None:
    directory = tmp_path / "data"
    worker = Worker(directory, "hold", jvm=jvm)
    try:
        worker.begin()
        worker.wait_for("open")
        with pytest.raises(ms.MillstreamError) as caught:
            ms.connect(directory)
        assert caught.value.code == "DATA_DIR_IN_USE"
        assert str(directory) in caught.value.message
        assert str(worker.process.pid) in str(caught.value)
        assert caught.value.hint
    finally:
        worker.kill()
    ms.connect(directory).close()


def test_the_same_process_is_refused_too(tmp_path: Path) -> None:
    with ms.connect(tmp_path / "data"), pytest.raises(ms.MillstreamError) as caught:
        ms.connect(tmp_path / "data")
    assert caught.value.code == "DATA_DIR_IN_USE"
    ms.connect(tmp_path / "data").close()
