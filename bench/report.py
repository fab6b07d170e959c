"""What was found, shown: a table on the terminal, a JSON file, a plot (PNG and SVG)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.outcome import Figure, Section

_COLORS = {
    "millstream": "#1f6f8b",
    "native": "#e08e45",
    "native_tuned": "#e08e45",
    "spark_once": "#c9c9c9",
    "duckdb_once": "#c9c9c9",
}


def show(console: Console, sections: Sequence[Section], machine: dict[str, str], took: str) -> None:
    """The figures, then the targets, then the checks."""
    figures = Table(title="figures, best run", title_justify="left", title_style="bold")
    for name, justify in (("workload", "left"), ("contender", "left"), ("best", "right"), ("runs", "right")):
        figures.add_column(name, justify=justify)  # type: ignore[arg-type]
    for section in sections:
        for index, figure in enumerate(section.figures):
            runs = " ".join(spell(figure, value) for value in figure.runs) if len(figure.runs) > 1 else ""
            style = "dim" if figure.reference else None
            last = index == len(section.figures) - 1
            title = section.title if index == 0 else ""
            best = f"{spell(figure, figure.value)} {figure.unit}"
            figures.add_row(title, figure.label, best, runs, style=style, end_section=last)
    console.print(figures)

    targets = Table(title="targets", title_justify="left", title_style="bold")
    for name, justify in (("what", "left"), ("asked", "right"), ("found", "right"), ("", "left")):
        targets.add_column(name, justify=justify)  # type: ignore[arg-type]
    for target in (target for section in sections for target in section.targets):
        mark = "[green]✓ pass[/]" if target.met else "[red]✗ fail[/]"
        asked = f"{target.comparison} {target.bound:g} {target.unit}"
        targets.add_row(target.what, asked, f"{target.value:.2f} {target.unit}", mark)
    console.print(targets)

    checks = Table(title="results, against a one-shot DuckDB query", title_justify="left", title_style="bold")
    for name in ("what", "", "detail"):
        checks.add_column(name, overflow="fold")
    for check in (check for section in sections for check in section.checks):
        checks.add_row(check.what, "[green]✓[/]" if check.ok else "[red]✗ wrong[/]", check.detail)
    console.print(checks)
    console.print("  ".join(f"{name} {value}" for name, value in machine.items()), style="dim", highlight=False)
    console.print(took, style="dim", highlight=False)


def spell(figure: Figure, value: float) -> str:
    """
    >>> spell(Figure("x", "x", 0, "events/s", ()), 1_234_567)
    '1.23 M'
    >>> spell(Figure("x", "x", 0, "ms", ()), 123.456)
    '123.5'
    """
    return f"{value / 1e6:.2f} M" if figure.unit == "events/s" else f"{value:.1f}"


def write_json(path: Path, sections: Sequence[Section], machine: dict[str, str], about: dict[str, Any]) -> None:
    content = {
        **about,
        "machine": machine,
        "sections": [asdict(section) for section in sections],
        "targets": [{**asdict(t), "met": t.met} for section in sections for t in section.targets],
        "correct": all(check.ok for section in sections for check in section.checks),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2) + "\n")


def plot(path: Path, sections: Sequence[Section], machine: dict[str, str]) -> list[Path]:
    """One panel per section; `path` without its suffix, as .png and .svg."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    mpl.rcParams.update({"svg.hashsalt": "millstream", "font.size": 9, "axes.spines.top": False})
    heights = [len(section.figures) for section in sections]
    size = (8.5, 0.42 * sum(heights) + 0.75 * len(sections) + 0.4)
    chart, axes = plt.subplots(
        len(sections), 1, figsize=size, squeeze=False, layout="constrained", gridspec_kw={"height_ratios": heights}
    )
    for axis, section in zip(axes.flat, sections, strict=True):
        _panel(axis, section)
    about = f"{machine['cores'].split()[0]} cores, PySpark {machine['pyspark']}, DuckDB {machine['duckdb']}"
    chart.supxlabel(f"{about}; pale bars are for orientation", fontsize=8, color="#666666")
    written = []
    for suffix, options in ((".png", {"dpi": 160}), (".svg", {"metadata": {"Date": None}})):
        target = path.with_suffix(suffix)
        chart.savefig(target, facecolor="white", **options)
        written.append(target)
    plt.close(chart)
    return written


def _panel(axis: Any, section: Section) -> None:
    figures = list(reversed(section.figures))
    # A limit that is ten times off would make the rest unreadable: its bar is cut, its figure is not.
    limit = 1.6 * max(figure.value for figure in figures if not figure.reference)
    for place, figure in enumerate(figures):
        color = _COLORS[figure.contender]
        axis.barh(place, min(figure.value, limit), color=color, alpha=0.45 if figure.reference else 1.0)
        cut = " →" if figure.value > limit else ""
        axis.annotate(
            f"{spell(figure, figure.value)} {figure.unit}{cut}",
            (min(figure.value, limit), place),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
        )
    axis.set_yticks(range(len(figures)), [figure.label for figure in figures])
    axis.set_xlim(0, limit * 1.25)
    axis.set_xticks([])
    axis.spines[["right", "bottom"]].set_visible(False)
    ratio = section.targets[0].value
    axis.set_title(f"{section.title}: {ratio:.2f} x {section.against}", loc="left", fontsize=9, fontweight="bold")
