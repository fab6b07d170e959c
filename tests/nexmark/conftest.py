"""Large inputs only where they are asked for; the workers use the Spark of this process."""

from __future__ import annotations

import pytest

from tests.faults.conftest import jvm

__all__ = ["jvm"]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "large" in config.option.markexpr:
        return
    large = [item for item in items if item.get_closest_marker("large")]
    if large:
        config.hook.pytest_deselected(items=large)
        items[:] = [item for item in items if item not in large]
