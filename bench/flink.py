"""Flink's own Python environment, `bench/.venv-flink`: `python -m bench.flink setup` makes it.

PyFlink needs older versions of what Millstream needs, so it cannot share an environment. What is
in it is pinned with hashes in `bench/requirements-flink.txt` (see `scripts/pin`). An environment counts as there only
once everything is installed, and only for the pins it was made from.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
VENV = HERE / ".venv-flink"
PINS = HERE / "requirements-flink.txt"
PYTHONS = ((3, 11), (3, 12))
"""What PyFlink 2.3 runs on and has wheels for, best first."""


class UnavailableError(Exception):
    """There is no Flink here; the text says why."""


def installed(venv: Path = VENV, pins: Path = PINS) -> Path | None:
    """The Python that has Flink, if the environment was made from these pins."""
    python = venv / "bin" / "python"
    complete = venv / "complete"
    if python.exists() and complete.exists() and complete.read_text() == _digest(pins):
        return python
    return None


def setup() -> Path:
    """Make the environment unless it is there; its Python."""
    python = installed()
    if python is not None:
        return python
    shutil.rmtree(VENV, ignore_errors=True)
    _run([_find_python(), "-m", "venv", str(VENV)])
    python = VENV / "bin" / "python"
    uv = [str(Path(sys.executable).with_name("uv")), "pip"]
    where = ["--python", str(python), "--require-hashes"]
    # Some packages come as sources only: what builds them is pinned too, and must be there first.
    builder = build_pin(PINS.read_text())
    _run([*uv, "install", *where, "--constraint", str(PINS), builder])
    _run([*uv, "sync", *where, "--no-build-isolation", str(PINS)])
    _run([str(python), "-c", "import pyflink.table"])
    (VENV / "complete").write_text(_digest(PINS))
    return python


def build_pin(pins: str) -> str:
    """
    >>> build_pin("six==1.17.0 \\\\\\n    --hash=sha256:1\\nsetuptools==80.1 \\\\\\n    --hash=sha256:2")
    'setuptools==80.1'
    """
    found = re.search(r"^setuptools==[\w.]+", pins, re.MULTILINE)
    if found is None:
        raise UnavailableError(f"{PINS.name} does not pin setuptools")
    return found.group()


def version() -> str:
    """The version that is pinned."""
    found = re.search(r"^apache-flink==([\w.]+)", PINS.read_text(), re.MULTILINE)
    return found.group(1) if found else "unknown"


def _digest(pins: Path) -> str:
    return hashlib.sha256(pins.read_bytes()).hexdigest()


def _find_python() -> str:
    if sys.version_info[:2] in PYTHONS:
        return sys.executable
    for major, minor in PYTHONS:
        found = shutil.which(f"python{major}.{minor}")
        if found:
            return found
    raise UnavailableError("PyFlink needs Python 3.11 or 3.12, and there is none on the path")


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=_environment())
    except OSError as error:
        raise UnavailableError(f"{command[0]} cannot be run: {error.strerror}") from error
    if done.returncode != 0:
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:] or ["no message"]
        raise UnavailableError(f"{Path(command[0]).name} failed ({done.returncode}): {last[0].strip()}")


def _environment() -> dict[str, str]:
    """uv does not read pip's settings: a mirror or certificate that this machine gives to pip holds for it too."""
    found = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")}
    for name, setting in (("UV_DEFAULT_INDEX", "index-url"), ("SSL_CERT_FILE", "cert")):
        for scope in (":env:", "global"):
            if name not in found:
                command = [sys.executable, "-m", "pip", "config", "get", f"{scope}.{setting}"]
                asked = subprocess.run(command, capture_output=True, text=True, check=False)
                if asked.returncode == 0 and asked.stdout.strip():
                    found[name] = asked.stdout.strip()
    return found


if __name__ == "__main__":
    if sys.argv[1:] != ["setup"]:
        sys.exit("usage: python -m bench.flink setup")
    try:
        print(setup())
    except UnavailableError as reason:
        sys.exit(f"Flink cannot be installed: {reason}")
