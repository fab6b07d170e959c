"""No error has a code that the registry lacks, and none in the registry is out of use."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import millstream
from millstream.model.error_codes import CODES, SECTIONS
from millstream.model.errors import MillstreamError

SOURCE = Path(millstream.__file__).parent
_CODE = re.compile(r"[A-Z]+(_[A-Z]+)*")
_COMPOSED = re.compile(r"[A-Z]+_\*(_[A-Z]+)*")
_REGISTRY = SOURCE / "model" / "error_codes.py"


def _texts(path: Path) -> Iterator[str]:
    """Patterns of all texts in a module; some codes are composed."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _CODE.fullmatch(node.value):
            yield re.escape(node.value)
        elif isinstance(node, ast.JoinedStr) and _COMPOSED.fullmatch(text := _joined(node)):
            yield text.replace("*", "[A-Z]+")


def _joined(node: ast.JoinedStr) -> str:
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "*" for part in node.values)


def _codes_of_calls(path: Path) -> Iterator[tuple[str, int]]:
    """The codes that calls which make errors are given first."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Call) and node.args and _makes_errors(node.func):
            for part in _choices(node.args[0]):
                if isinstance(part, ast.Constant) and isinstance(part.value, str) and _CODE.fullmatch(part.value):
                    yield part.value, node.lineno


def _choices(node: ast.expr) -> list[ast.expr]:
    return [*_choices(node.body), *_choices(node.orelse)] if isinstance(node, ast.IfExp) else [node]


def _makes_errors(function: ast.expr) -> bool:
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return re.search(r"Error$|^_?(error|refus)", name) is not None


MODULES = [path for path in sorted(SOURCE.rglob("*.py")) if path != _REGISTRY]


def test_every_code_that_is_raised_is_in_the_registry() -> None:
    unknown = [
        f"{path.relative_to(SOURCE)}:{line}: {code}"
        for path in MODULES
        for code, line in _codes_of_calls(path)
        if code not in CODES
    ]
    assert not unknown


def test_every_code_of_the_registry_is_in_use() -> None:
    used = re.compile("|".join({text for path in MODULES for text in _texts(path)}))
    assert not [code for code in CODES if not used.fullmatch(code)]


def test_sections_do_not_share_codes() -> None:
    assert sum(map(len, SECTIONS.values())) == len(CODES)


@pytest.mark.parametrize("code", CODES)
def test_every_code_says_something(code: str) -> None:
    assert _CODE.fullmatch(code)
    for text in CODES[code]:
        assert text.endswith(".")
        assert "|" not in text


def test_an_error_that_is_moved_keeps_all_but_its_place() -> None:
    class SpecialError(MillstreamError):
        pass

    moved = SpecialError("BAD_NAME", "no", detail="because", hint="do").moved(None, hint="do this")
    assert isinstance(moved, SpecialError)
    assert (moved.code, moved.message, moved.detail, moved.hint) == ("BAD_NAME", "no", "because", "do this")
