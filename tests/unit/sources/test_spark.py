import pytest

from millstream.model.errors import MillstreamError
from millstream.sources.options import Pushed
from tests.unit.sources.conftest import Begin
from tests.unit.sources.opening import opened


def test_structured_streaming_pushes_the_batches(begin: Begin) -> None:
    source, options = opened(begin(), source="spark", format="rate", path="/p", **{"option.rowsPerSecond": "10"})
    assert options.pushed() == Pushed("rate", "/p", {"rowspersecond": "10"})
    assert source.waiting({0: 3}) == 0
    assert source.cut({0: 3}, 10) is None
    assert source.end() == {}


def test_a_format_is_a_name(begin: Begin) -> None:
    with pytest.raises(MillstreamError) as caught:
        opened(begin(), source="spark", format="rate; drop")
    assert caught.value.code == "BAD_OPTION"
