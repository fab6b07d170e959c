import pytest

from millstream.model.errors import MillstreamError
from millstream.sources import SOURCES, TableOptions
from millstream.sources.options import ReplayedOptions
from millstream.sources.starts import Start


def test_a_start_is_pending_until_it_is_noted() -> None:
    assert ReplayedOptions.read({}).pending_start() is None
    assert ReplayedOptions.read({"start": "latest"}).pending_start() == Start("latest")
    noted = ReplayedOptions.read({"start": "latest", "start_offsets": "0=7"})
    assert noted.pending_start() is None
    assert noted.begins_at == {0: 7}


@pytest.mark.parametrize("options", [{"start": "newest"}, {"start_offsets": "latest"}])
def test_a_start_that_is_none(options: dict[str, str]) -> None:
    with pytest.raises(MillstreamError) as caught:
        ReplayedOptions.read(options)
    assert caught.value.code == "BAD_OPTION"


@pytest.mark.parametrize("name", SOURCES)
def test_a_misspelt_option_is_refused_with_a_suggestion(name: str) -> None:
    with pytest.raises(MillstreamError) as caught:
        SOURCES[name].options.read({"idle_timeot": "1 second"})
    assert caught.value.code == "UNKNOWN_OPTION"
    assert "idle_timeout" in (caught.value.hint or "")


def test_the_words_of_a_table() -> None:
    assert TableOptions.read({"deletes": "D, gone ,,d"}).words("deletes") == ("d", "gone")
