"""Flink's own Python environment, `bench/.venv-flink`: `python -m bench.flink setup` makes it.

PyFlink needs older versions of what Millstream needs, so it cannot share an environment. The settings that
all of its contenders share are in `flink_session.py`.
"""

from __future__ import annotations

from bench.environments import Environment

ENVIRONMENT = Environment("flink", "apache-flink", "pyflink.table", pythons=((3, 11), (3, 12)), builds=True)
"""PyFlink 2.3 runs on and has wheels for these Pythons."""

if __name__ == "__main__":
    ENVIRONMENT.main()
