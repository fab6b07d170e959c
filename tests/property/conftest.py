"""Settings of Hypothesis: few, rich examples, the same ones in every run of CI."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

import millstream as ms

settings.register_profile(
    "millstream",
    deadline=None,
    derandomize="CI" in os.environ,
    print_blob=True,
    # Every attempt runs real epochs: shrinking a failure takes minutes, so it is asked for.
    phases=[Phase.explicit, Phase.reuse, Phase.generate, *([Phase.shrink] if "SHRINK" in os.environ else [])],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
)
settings.load_profile("millstream")


@pytest.fixture(scope="session")
def spark_is_up(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Start Spark with logs in a directory that outlives every example."""
    with ms.connect(tmp_path_factory.mktemp("spark")) as db:
        db.sql("CREATE STREAM s (v BIGINT)")
        db.insert("s", [{"v": 1}])
        db.drain()


@pytest.fixture(scope="session")
def fresh_directory(
    spark_is_up: None, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[], AbstractContextManager[Path]]:
    """A data directory for one example, removed after it."""

    @contextmanager
    def make() -> Iterator[Path]:
        directory = tmp_path_factory.mktemp("example")
        try:
            yield directory
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    return make
