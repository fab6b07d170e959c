from millstream.sources import Place, Start
from millstream.sources.spark import PushedSource


def test_what_a_source_need_not_say() -> None:
    source = PushedSource()
    assert source.failure is None
    assert source.place(Start("latest")) == Place({})
