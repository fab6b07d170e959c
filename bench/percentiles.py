"""Percentiles by the nearest rank: always a value that was measured."""

from __future__ import annotations

import math
from collections.abc import Sequence

SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


def percentile(values: Sequence[float], share: float) -> float:
    """
    >>> percentile([5, 1, 4, 2, 3], 0.5), percentile([5, 1, 4, 2, 3], 0.99)
    (3, 5)
    """
    if not values:
        raise ValueError("there are no values")
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]
