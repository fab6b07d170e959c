"""Polars' own Python environment, `bench/.venv-polars`: `python -m bench.polars setup` makes it.

It is here as a limit only, so Millstream's environment does not carry it.
"""

from __future__ import annotations

from bench.environments import Environment

ENVIRONMENT = Environment("polars", "polars", "polars", pythons=((3, 11), (3, 12), (3, 13)))

if __name__ == "__main__":
    ENVIRONMENT.main()
