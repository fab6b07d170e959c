from tests.unit.sources.conftest import Begin
from tests.unit.sources.opening import opened


def test_a_stream_of_lines_is_in_the_log(begin: Begin) -> None:
    opening = begin()
    source, options = opened(opening, source="socket", listen="true", port="0", topic="lines")
    try:
        spec = options.topic_of(opening.stream)
        assert spec is not None
        assert spec.name == "lines"
    finally:
        source.close()
