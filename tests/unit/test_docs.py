"""The documents agree with the code: functions and options are listed, examples parse, links lead somewhere."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from millstream.engine.define.tables import split_options, table_rules
from millstream.sources import SOURCES, StreamOptions, TableOptions
from millstream.sql import check_query, parse_script
from millstream.sql.statements import CreateStream, CreateTable, CreateView, Select

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").rglob("*.md"))]

UNCHECKED = {"benchmarks.md", "errors.md", "functions.md"}
"""Pages that a command writes."""
WRAPPED = [ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *(page for page in PAGES if page.name not in UNCHECKED)]

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")


def _blocks(page: Path, language: str) -> list[str]:
    return [text for name, text in _BLOCK.findall(page.read_text("utf-8")) if name == language]


def _anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_list_of_functions_is_the_one_of_the_code() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "list_functions.py"))
    listed = (ROOT / "docs" / "functions.md").read_text("utf-8")
    assert listed == script["page"](), "stale: run .venv/bin/python scripts/list_functions.py > docs/functions.md"


def test_the_list_of_errors_is_the_one_of_the_code() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "list_errors.py"))
    listed = (ROOT / "docs" / "errors.md").read_text("utf-8")
    assert listed == script["page"](), "stale: run .venv/bin/python scripts/list_errors.py > docs/errors.md"


@pytest.mark.parametrize(
    "model", [StreamOptions, *(connector.options for connector in SOURCES.values())], ids=lambda model: model.__name__
)
def test_every_option_of_a_source_is_described(model: type[StreamOptions]) -> None:
    page = (ROOT / "docs" / "sources.md").read_text("utf-8")
    missing = [name for name in model.model_fields if name not in ("fields", "options") and f"`{name}`" not in page]
    assert not missing


def test_every_option_of_a_table_is_described() -> None:
    page = (ROOT / "docs" / "streamsql.md").read_text("utf-8")
    assert [name for name in TableOptions.model_fields if f"| `{name}` |" not in page] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_sql_examples_are_statements(page: Path) -> None:
    for text in _blocks(page, "sql"):
        for statement in parse_script(text, page.name):
            match statement:
                case CreateStream():
                    options = dict(statement.options)
                    SOURCES[options.get("source", "log")].options.read(options, statement.position)
                case CreateTable():
                    own, options = split_options(statement)
                    table_rules(statement, own)
                    SOURCES[options.get("source", "log")].options.read(options, statement.position)
                case CreateView():
                    check_query(statement.query, text=text, source=page.name)
                case Select():
                    check_query(statement.query, text=text, source=page.name, continuous=False)
                case _:
                    pass


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_examples_compile(page: Path) -> None:
    for text in _blocks(page, "python"):
        compile(text, page.name, "exec")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in _LINK.findall(page.read_text("utf-8")):
        if link.startswith("http"):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path) if path else page
        assert target.exists(), link
        assert not anchor or anchor in _anchors(target), link


@pytest.mark.parametrize("page", WRAPPED, ids=lambda page: page.name)
def test_prose_is_wrapped(page: Path) -> None:
    """At 120 columns, except tables and blocks of code."""
    text = _FENCED.sub("", page.read_text("utf-8"))
    assert [line for line in text.splitlines() if len(line) > 120 and not line.lstrip().startswith("|")] == []
