"""Python environments of contenders that do not share ours: `bench/.venv-<name>` from `bench/requirements-<name>.txt`.

What always holds: everything is pinned with hashes (see `scripts/pin`); an environment counts as there only once
all of it is installed, and only for the pins it was made from.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent


class UnavailableError(Exception):
    """A contender is not here; the text says why."""


@dataclass(frozen=True, slots=True)
class Environment:
    """One of them: its name, the package it is there for and the module that must import."""

    name: str
    package: str
    module: str
    pythons: tuple[tuple[int, int], ...]
    """The versions of Python it runs on, best first."""
    builds: bool = False
    """Whether some packages come as sources only, so that what builds them must be there first."""

    @property
    def venv(self) -> Path:
        return HERE / f".venv-{self.name}"

    @property
    def pins(self) -> Path:
        return HERE / f"requirements-{self.name}.txt"

    def python(self, *, install: bool) -> Path:
        """Its Python, installed if that is wanted and it is not there."""
        found = installed(self.venv, self.pins)
        if found is None and install:
            return self.setup()
        if found is None:
            raise UnavailableError(f"not installed; `python -m bench.{self.name} setup` does it")
        return found

    def setup(self) -> Path:
        """Make the environment unless it is there; its Python."""
        python = installed(self.venv, self.pins)
        if python is not None:
            return python
        if self.venv.is_symlink():
            raise UnavailableError(f"{self.venv} is a link to an environment of other pins")
        shutil.rmtree(self.venv, ignore_errors=True)
        _run([self._find_python(), "-m", "venv", str(self.venv)])
        python = self.venv / "bin" / "python"
        uv = [str(Path(sys.executable).with_name("uv")), "pip"]
        where = ["--python", str(python), "--require-hashes"]
        if self.builds:
            builder = build_pin(self.pins.read_text())
            _run([*uv, "install", *where, "--constraint", str(self.pins), builder])
        isolation = ["--no-build-isolation"] if self.builds else []
        _run([*uv, "sync", *where, *isolation, str(self.pins)])
        _run([str(python), "-c", f"import {self.module}"])
        (self.venv / "complete").write_text(digest(self.pins))
        return python

    def version(self) -> str:
        """The version that is pinned."""
        found = re.search(rf"^{self.package}==([\w.]+)", self.pins.read_text(), re.MULTILINE)
        return found.group(1) if found else "unknown"

    def main(self) -> None:
        """`python -m bench.<name> setup`."""
        if sys.argv[1:] != ["setup"]:
            sys.exit(f"usage: python -m bench.{self.name} setup")
        try:
            print(self.setup())
        except UnavailableError as reason:
            sys.exit(f"{self.package} cannot be installed: {reason}")

    def _find_python(self) -> str:
        if sys.version_info[:2] in self.pythons:
            return sys.executable
        for major, minor in self.pythons:
            found = shutil.which(f"python{major}.{minor}")
            if found:
                return found
        needed = " or ".join(f"{major}.{minor}" for major, minor in self.pythons)
        raise UnavailableError(f"{self.package} needs Python {needed}, and there is none on the path")


def installed(venv: Path, pins: Path) -> Path | None:
    """The Python of an environment, if it was made from these pins."""
    python = venv / "bin" / "python"
    complete = venv / "complete"
    if python.exists() and complete.exists() and complete.read_text() == digest(pins):
        return python
    return None


def digest(pins: Path) -> str:
    return hashlib.sha256(pins.read_bytes()).hexdigest()


def build_pin(pins: str) -> str:
    """
    >>> build_pin("six==1.17.0 \\\\\\n    --hash=sha256:1\\nsetuptools==80.1 \\\\\\n    --hash=sha256:2")
    'setuptools==80.1'
    """
    found = re.search(r"^setuptools==[\w.]+", pins, re.MULTILINE)
    if found is None:
        raise UnavailableError("setuptools is not pinned")
    return found.group()


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
