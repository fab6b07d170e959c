"""Directories that cannot hold a database get an error of ours, whichever part finds out."""

from __future__ import annotations

from pathlib import Path

import pytest

import millstream as ms


@pytest.mark.parametrize("part", [".", "LOCK", "spark"])
def test_a_directory_that_cannot_be_written(tmp_path: Path, part: str) -> None:
    """A file where a directory should be, or the other way round, fails for every user, as a read-only disk does."""
    directory = tmp_path / "data"
    blocked = directory / part
    if part == "LOCK":
        blocked.mkdir(parents=True)
    else:
        blocked.parent.mkdir(exist_ok=True)
        blocked.write_text("in the way")
    with pytest.raises(ms.MillstreamError) as caught:
        ms.connect(directory, settings=ms.EngineSettings(eager_spark=False)).close()
    assert caught.value.code == "BAD_PATH"
    assert caught.value.detail is not None
