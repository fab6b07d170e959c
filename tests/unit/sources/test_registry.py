import re
from pathlib import Path

import pytest

from millstream.sources import SOURCES
from tests.unit.sources.conftest import Begin
from tests.unit.sources.opening import opened

ROOT = Path(__file__).parents[3]
OPTIONS = {
    "log": {},
    "files": {"path": "/tmp", "format": "csv"},
    "datagen": {"rows": "10"},
    "socket": {"port": "0", "listen": "true"},
    "spark": {"format": "rate"},
}


def test_every_connector_is_tried_here() -> None:
    assert OPTIONS.keys() == SOURCES.keys()


@pytest.mark.parametrize("name", SOURCES)
def test_a_connector_opens_a_source_that_closes(name: str, begin: Begin) -> None:
    opening = begin()
    source, options = opened(opening, source=name, **OPTIONS[name])
    try:
        assert source.partitions >= 1
        assert source.failure is None
        spec = options.topic_of(opening.stream)
        assert (spec is not None) >= SOURCES[name].takes_rows, "inserted rows need a topic"
        assert options.pushed() is None or not SOURCES[name].replays
    finally:
        source.close()


@pytest.mark.parametrize("name", SOURCES)
def test_a_connector_with_a_start_has_the_option(name: str) -> None:
    assert SOURCES[name].has_start == ("start_offsets" in SOURCES[name].options.model_fields)


@pytest.mark.parametrize("name", SOURCES)
def test_a_connector_has_a_module_a_test_and_a_section(name: str) -> None:
    module = SOURCES[name].options.__module__.rpartition(".")[2]
    assert (Path(__file__).parent / f"test_{module}.py").exists()
    assert f"## {name}\n" in (ROOT / "docs" / "sources.md").read_text("utf-8")


def test_nobody_else_tells_sources_apart_by_type() -> None:
    classes = [c for connector in SOURCES.values() for c in (connector.options.__name__,)]
    classes += ["LogSource", "FilesSource", "DatagenSource", "SocketSource", "PushedSource"]
    named = re.compile(rf"\b({'|'.join(classes)})\b")
    src = ROOT / "src" / "millstream"
    others = [path for path in src.rglob("*.py") if path.parent.name != "sources"]
    assert [str(path) for path in others if named.search(path.read_text("utf-8"))] == []
