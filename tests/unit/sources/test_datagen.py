import pytest

from millstream.model.errors import MillstreamError
from millstream.model.time import ManualClock
from millstream.plan.slices import GeneratedSlice
from millstream.sources.datagen import DatagenOptions
from tests.unit.sources.conftest import Begin
from tests.unit.sources.opening import opened


def test_rows_are_numbered(begin: Begin) -> None:
    source, _ = opened(begin(), source="datagen", rows="10", seed="7")
    cut = source.cut({0: 4}, 3)
    assert cut is not None
    assert isinstance(cut.slice, GeneratedSlice)
    assert (cut.slice.start, cut.slice.end, cut.offsets) == (4, 7, {0: 7})
    assert source.waiting({0: 10}) == 0


def test_the_rate_goes_on_from_where_the_store_is(begin: Begin) -> None:
    clock = ManualClock(100)
    source, _ = opened(begin(clock=clock, reached={0: 50}), source="datagen", rate="10")
    assert source.end() == {0: 50}
    clock.advance(2)
    assert source.end() == {0: 70}


def test_the_first_event_time_is_noted_once() -> None:
    assert DatagenOptions.completed({}, 1_500_000) == {"start": "1970-01-01 00:00:01.500000"}
    assert DatagenOptions.completed({"start": "2024-01-01"}, 0) == {}


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({}, "BAD_OPTION"),
        ({"rows": "1", "fields.nme.min": "1"}, "UNKNOWN_COLUMN"),
        ({"rows": "1", "fields.id.mn": "1"}, "UNKNOWN_OPTION"),
        ({"rows": "1", "start": "yesterday"}, "BAD_OPTION"),
    ],
)
def test_what_is_refused(begin: Begin, options: dict[str, str], code: str) -> None:
    with pytest.raises(MillstreamError) as caught:
        opened(begin(), source="datagen", **options)
    assert caught.value.code == code
