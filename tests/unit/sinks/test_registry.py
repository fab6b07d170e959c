from pathlib import Path

import pytest

from millstream.model.errors import MillstreamError
from millstream.sinks import SINKS, SinkOptions

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("name", SINKS)
def test_a_connector_has_a_module_a_test_and_a_section(name: str) -> None:
    module = SINKS[name].options.__module__.rpartition(".")[2]
    assert (Path(__file__).parent / f"test_{module}.py").exists()
    assert f"## {name}\n" in (ROOT / "docs" / "sinks.md").read_text("utf-8")


@pytest.mark.parametrize("model", [SinkOptions, *(connector.options for connector in SINKS.values())])
def test_every_option_is_described(model: type[SinkOptions]) -> None:
    page = (ROOT / "docs" / "sinks.md").read_text("utf-8")
    assert [name for name in model.model_fields if f"| `{name}` |" not in page] == []


@pytest.mark.parametrize("name", SINKS)
def test_a_misspelt_option_is_refused_with_a_suggestion(name: str) -> None:
    with pytest.raises(MillstreamError) as caught:
        SINKS[name].options.read({"connector": name, "strat": "latest"})
    assert caught.value.code == "UNKNOWN_OPTION"
    assert "start" in (caught.value.hint or "")
