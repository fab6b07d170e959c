"""The report as Markdown: a marked region of `docs/benchmarks.md`, or a page of its own elsewhere.

Owns the region between its two marks and nothing else of the page. It is made from the sections that are kept and
from nothing else, so that it can be written again at any time.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from bench import archive, plots
from bench.archive import measured
from bench.catalog import WORKLOADS
from bench.machine import ROOT
from bench.outcome import Measured, Section
from bench.tables import absence_lines, figure_table, grid_tables, note_lines, target_table, trace_table

BEGIN = "<!-- results: `make bench` writes what follows; a change by hand is lost -->"
END = "<!-- end of results -->"


class UnmarkedError(Exception):
    """The page has no place for the results."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a report goes: the page, and the folder of its figures and images."""

    page: Path
    folder: Path

    @property
    def figures(self) -> Path:
        return self.folder / "results.json"

    def check(self) -> None:
        """Say now what would go wrong after hours of measuring: figures or a page that cannot be read."""
        archive.load(self.figures)
        if self.page.exists():
            replace_region(self.page.read_text("utf-8"), "")


DOCS = Place(ROOT / "docs" / "benchmarks.md", ROOT / "docs" / "benchmarks")


def in_folder(folder: Path) -> Place:
    return Place(folder / "report.md", folder)


def publish(place: Place, new: Sequence[Section]) -> list[Path]:
    """Put new sections in the place of older ones and write everything again; the files."""
    sections = archive.merge(archive.load(place.figures), new)
    archive.save(place.figures, sections)
    images = plots.draw(place.folder, sections)
    links = {name: os.path.relpath(path, place.page.parent) for name, path in images.items()}
    text = results(sections, links, os.path.relpath(place.figures, place.page.parent))
    old = place.page.read_text("utf-8") if place.page.exists() else f"# Benchmarks\n\n{BEGIN}\n{END}\n"
    place.page.write_text(replace_region(old, text), encoding="utf-8")
    return [place.page, place.figures, *images.values()]


def replace_region(page: str, text: str) -> str:
    """
    >>> replace_region(f"before {BEGIN} old {END} after", "new").split("\\n")[2:]
    ['new', '', '<!-- end of results --> after']
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise UnmarkedError(f"the page has no `{BEGIN}` with `{END}` behind it")
    return f"{before}{BEGIN}\n\n{text}\n\n{END}{after}"


def results(sections: Sequence[Section], images: Mapping[str, str], figures: str) -> str:
    """Machine and targets, then a part for each workload; `images` by workload, as links."""
    newest = max((measured(section) for section in sections), key=lambda one: one.at)
    parts = [
        f"Every run of every figure is in [{Path(figures).name}]({figures}).",
        "The machine: " + ", ".join(f"{name} {value}" for name, value in newest.machine.items()) + ".",
        "### Targets",
        *_targets(sections),
    ]
    for name in WORKLOADS:
        own = [section for section in sections if section.workload == name]
        if own:
            parts += _workload(name, own, newest, images.get(name))
    if "memory" in images:
        parts += ["### Memory", "The peak of the resident memory of each contender's process tree, over all runs."]
        parts.append(f"![peak memory of each contender]({images['memory']})")
    return "\n\n".join([*parts, "### Whether results were right", *_checks(sections)])


def _targets(sections: Sequence[Section]) -> list[str]:
    targets = [target for section in sections for target in section.targets if not target.aim]
    judged = [target for target in targets if target.value is not None]
    missed = [f"{one.workload}, {target.what}" for one in sections for target in one.targets if target.missed]
    absent = [name for name in WORKLOADS if name not in {section.workload for section in sections}]
    if any(measured(section).size != "full" for section in sections):
        said = "Targets are for the whole input; of another they say little."
    elif missed:
        said = f"**{len(missed)} of {len(judged)} targets missed**: {'; '.join(missed)}."
    else:
        said = f"All {len(judged)} targets met."
    if len(judged) < len(targets):
        said += f" {len(targets) - len(judged)} could not be judged: a rival did not take part, or failed."
    if absent:
        said += f" Not measured: {', '.join(absent)}."
    wrong = sum(not check.ok for section in sections for check in section.checks)
    if wrong:
        verb = "is" if wrong == 1 else "are"
        said += f" **{wrong} of the results {verb} wrong**, see [below](#whether-results-were-right)."
    table = target_table(sections)
    return [said, table.markdown().replace("| missed |", "| **missed** |")] if table.rows else [said]


def _workload(name: str, sections: Sequence[Section], newest: Measured, image: str | None) -> list[str]:
    workload, about = WORKLOADS[name], measured(sections[0])
    remark = workload.remark if about.size == "full" and about.runs == workload.runs else ""
    parts = [f"### {name}: {workload.about}", provenance(about, newest, remark)]
    if image is not None:
        parts.append(f"![{name}: {workload.about}]({image})")
    for section in sections:
        tables = [figure_table(section)] if section.figures else []
        tables += grid_tables(section, section.grid) if section.grid is not None else []
        tables += [trace_table(section)] if section.traces else []
        lines = (absence_lines(section.grid) if section.grid is not None else []) + note_lines(section)
        said = ""
        for table in tables:
            parts += [f"**{table.title}**"] if table.title != said else []
            parts.append(table.markdown())
            said = table.title
        if not tables:
            parts.append(f"**{section.title}**")
        if lines:
            parts.append("\n".join(f"- {_one_line(line)}" for line in lines))
    return parts


def provenance(about: Measured, newest: Measured, remark: str = "") -> str:
    """When, from what, on what and how often; and what differs from the machine at the top of the report."""
    changed = " with changes that are not committed" if about.dirty else ""
    runs = f"best of {about.runs} runs in turn" if about.runs > 1 else "one run"
    said = [
        f"Measured {datetime.fromisoformat(about.at):%Y-%m-%d %H:%M} UTC on commit `{about.commit}`{changed}",
        about.input,
        f"{runs} ({remark})" if remark else runs,
        f"{about.seconds / 60:.0f} min altogether" if about.seconds >= 90 else f"{about.seconds:.0f} s altogether",
        f"load of the machine before the benchmark {about.load:.2f}",
    ]
    text = "; ".join(said) + "."
    if about.size != "full":
        text += " Not the full input: figures for orientation only."
    differing = [
        f"{name} {about.machine.get(name, 'none')} instead of {newest.machine.get(name, 'none')}"
        for name in {**newest.machine, **about.machine}
        if about.machine.get(name) != newest.machine.get(name)
    ]
    if differing:
        text += f" **Not the machine or the versions above**: {', '.join(differing)}."
    return text


def _checks(sections: Sequence[Section]) -> list[str]:
    checks = [check for section in sections for check in section.checks]
    wrong = [check for check in checks if not check.ok]
    said = [f"{len(checks) - len(wrong)} of {len(checks)} checks of results passed; each is in the JSON."]
    if wrong:
        said.append("\n".join(f"- **wrong**: {_one_line(f'{check.what}: {check.detail}')}" for check in wrong))
    return said


def _one_line(text: str) -> str:
    return " ".join(text.split())
