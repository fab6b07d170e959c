import os
from pathlib import Path

import pytest

from millstream.model.errors import MillstreamError
from millstream.plan.slices import FileSlice
from millstream.sources import Start
from tests.unit.sources.conftest import Begin
from tests.unit.sources.opening import opened


def _file(directory: Path, name: str, modified_at: int) -> str:
    path = directory / name
    path.write_text("1,x\n")
    os.utime(path, (modified_at, modified_at))
    return str(path)


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    directory = tmp_path / "in"
    directory.mkdir()
    return directory


def test_files_in_the_order_of_their_modification(begin: Begin, inbox: Path) -> None:
    later, earlier = _file(inbox, "a.csv", 20), _file(inbox, "b.csv", 10)
    _file(inbox, "_hidden.csv", 5)
    _file(inbox, "c.txt", 5)
    source, _ = opened(begin(), source="files", path=str(inbox), format="csv", pattern="*.csv")
    assert source.waiting({}) == 2
    cut = source.cut({}, 10)
    assert cut is not None
    assert isinstance(cut.slice, FileSlice)
    assert cut.slice.paths == (earlier, later)
    assert (cut.offsets, list(cut.files)) == ({0: 2}, [(0, earlier), (1, later)])
    assert source.cut(cut.offsets, 10) is None


def test_files_that_were_read_keep_their_numbers(begin: Begin, inbox: Path) -> None:
    read = _file(inbox, "b.csv", 20)
    new = _file(inbox, "a.csv", 10)
    source, _ = opened(begin(files=[read]), source="files", path=str(inbox), format="csv")
    cut = source.cut({0: 1}, 10)
    assert cut is not None
    assert list(cut.files) == [(1, new)]


def test_a_start_leaves_out_files(begin: Begin, inbox: Path) -> None:
    first, second = _file(inbox, "a.csv", 10), _file(inbox, "b.csv", 20)
    source, _ = opened(begin(), source="files", path=str(inbox), format="csv", start="latest")
    assert source.place(Start("latest")).skipped == [first, second]
    by_time = source.place(Start(landed_at=15_000_000))
    assert (by_time.offsets, by_time.skipped) == ({0: 1}, [first])
    with pytest.raises(MillstreamError) as caught:
        source.place(Start(offsets={0: 3}))
    assert caught.value.code == "BAD_OPTION"


def test_a_file_that_is_gone(begin: Begin, inbox: Path) -> None:
    path = _file(inbox, "a.csv", 10)
    source, _ = opened(begin(), source="files", path=str(inbox), format="csv")
    assert source.end() == {0: 1}
    Path(path).unlink()
    with pytest.raises(MillstreamError) as caught:
        source.cut({}, 10)
    assert caught.value.code == "FILE_GONE"
