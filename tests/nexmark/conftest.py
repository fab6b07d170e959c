"""The workers use the Spark of this process."""

from __future__ import annotations

from tests.faults.conftest import jvm

__all__ = ["jvm"]
