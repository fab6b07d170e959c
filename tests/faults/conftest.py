"""One JVM for all workers: only the process that holds the data is killed."""

from __future__ import annotations

import pytest

import millstream as ms


@pytest.fixture(scope="session")
def jvm(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What a worker needs in its environment to use the Spark of this process."""
    from pyspark import SparkContext

    with ms.connect(tmp_path_factory.mktemp("spark")) as db:
        db.sql("CREATE STREAM s (v BIGINT)")
        db.insert("s", [{"v": 1}])
        db.drain()
    gateway = SparkContext._gateway
    assert gateway is not None
    parameters = gateway.gateway_parameters
    return {"PYSPARK_GATEWAY_PORT": str(parameters.port), "PYSPARK_GATEWAY_SECRET": parameters.auth_token}
