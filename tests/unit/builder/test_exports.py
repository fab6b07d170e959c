"""The builder as attributes of the package."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import millstream as ms

EXPORTED = [name for name in ms.__all__ if ms._HOMES[name].startswith("millstream.builder.")]
METHODS = [
    (owner, name)
    for owner in ("Aggregate", "Expression", "Relation", "View")
    for name, member in inspect.getmembers(getattr(ms, owner))
    if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property))
]


@pytest.mark.parametrize("name", EXPORTED)
def test_everything_is_exported_from_where_it_is_defined(name: str) -> None:
    value = getattr(ms, name)
    assert getattr(value, "__module__", None) == ms._HOMES[name]


@pytest.mark.parametrize("name", [name for name in EXPORTED if name not in ("Aggregate", "Ordering", "View")])
def test_everything_has_an_example(name: str) -> None:
    value = getattr(ms, name)
    assert ">>> " in (inspect.getdoc(value) or "")


@pytest.mark.parametrize(("owner", "name"), METHODS)
def test_every_method_has_an_example(owner: str, name: str) -> None:
    assert ">>> " in (inspect.getdoc(getattr(getattr(ms, owner), name)) or "")


def test_the_builder_is_loaded_when_it_is_used() -> None:
    code = "import sys, millstream; print([m for m in sys.modules if m.startswith(('sqlglot', 'millstream.builder'))])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
