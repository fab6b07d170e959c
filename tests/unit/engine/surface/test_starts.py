"""What `--from` says."""

from __future__ import annotations

import pytest

from millstream.engine.surface.starts import read_starts
from millstream.model.errors import MillstreamError


def test_a_start_for_all_streams_and_starts_of_some() -> None:
    starts = read_starts(["latest", "Bids:0=100,1=250", "asks: 2024-01-01 10:30:00"])
    assert starts.of("other") == "latest"
    assert starts.of("BIDS") == "0=100,1=250"
    assert starts.of("asks") == "2024-01-01 10:30:00"


def test_an_instant_is_not_taken_for_a_stream() -> None:
    assert read_starts(["2024-01-01 10:30:00"]).of("s") == "2024-01-01 10:30:00"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["yesterday"], "no place to begin"),
        (["bids:soon"], "no place to begin"),
        (["bids:0=1,0=2"], "no place to begin"),
        (["0=100"], "names no stream"),
        (["latest", "earliest"], "twice for all streams"),
        (["a:latest", "A:earliest"], "twice for a"),
    ],
)
def test_what_is_refused(values: list[str], message: str) -> None:
    with pytest.raises(MillstreamError, match=message) as caught:
        read_starts(values)
    assert caught.value.code == "BAD_START"
