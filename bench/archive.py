"""What was found, kept as one JSON file: of every workload the sections that were measured last.

What always holds: the sections of a workload were measured together, in one go, and are replaced together, so that a
ratio is always of contenders that took turns; and all sections of a file are of one size, full or quick.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from bench.catalog import WORKLOADS
from bench.outcome import Measured, Section, Size

_SECTIONS = TypeAdapter(list[Section])
_NUMBERS = re.compile(r"\[\n\s*([-+.\deE,\s]*?)\s*\]")


class UnreadableError(Exception):
    """The file is not what is written here."""


def load(path: Path) -> list[Section]:
    """What is kept; nothing if there is no file."""
    if not path.exists():
        return []
    try:
        content = json.loads(path.read_text("utf-8"))
        return _SECTIONS.validate_python(content["sections"])
    except (ValueError, ValidationError, KeyError, TypeError) as error:
        raise UnreadableError(f"{path} cannot be read; move it away to start anew: {error}") from error


def save(path: Path, sections: Sequence[Section]) -> None:
    content = {
        "targets": [_target(section, place) for section in sections for place in range(len(section.targets))],
        "correct": all(check.ok for section in sections for check in section.checks),
        "sections": [_fields(section) for section in sections],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    # A list of numbers is one line: a run changes lines, not pages.
    text = _NUMBERS.sub(lambda found: "[" + " ".join(found.group(1).split()) + "]", json.dumps(content, indent=1))
    path.write_text(text + "\n", encoding="utf-8")


def merge(kept: Sequence[Section], new: Sequence[Section]) -> list[Section]:
    """The new ones in place of those of the same workloads, in the order of the catalogue."""
    replaced = {section.workload for section in new}
    sizes = {measured(section).size for section in new}
    rest = [one for one in kept if one.workload not in replaced and (not new or measured(one).size in sizes)]
    order = list(WORKLOADS)
    return sorted([*rest, *new], key=lambda section: order.index(section.workload))


def measured(section: Section) -> Measured:
    if section.measured is None:
        raise ValueError(f"{section.name} does not say how it was measured")
    return section.measured


def expected_seconds(kept: Sequence[Section], runs: Mapping[str, int], size: Size) -> dict[str, float]:
    """What each workload will take with so many runs, as far as the last time tells."""
    last = {one.workload: measured(one) for one in kept if measured(one).size == size}
    return {name: last[name].seconds * count / last[name].runs for name, count in runs.items() if name in last}


def _target(section: Section, place: int) -> dict[str, Any]:
    target = section.targets[place]
    return {"workload": section.workload, **asdict(target), "met": target.met}


def _fields(section: Section) -> dict[str, Any]:
    """As the fields have it, and what is derived from them, for other readers."""
    fields = asdict(section)
    if section.grid is not None:
        fields["grid"] |= section.grid.as_json()
    for trace, shown in zip(section.traces, fields["traces"], strict=True):
        shown["growth"] = trace.growth
    return fields
