"""What was found, drawn: one panel per section, as PNG and SVG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.grid import Grid
from bench.outcome import Section
from bench.tables import spell

_COLORS = {
    "millstream": "#1f6f8b",
    "native": "#e08e45",
    "native_tuned": "#e08e45",
    "flink_heap": "#8e5ea2",
    "flink_rocksdb": "#c39bd3",
    "spark_once": "#c9c9c9",
    "duckdb_once": "#c9c9c9",
    "polars_once": "#c9c9c9",
    "millstream_own": "#1f6f8b",
}
_BAR, _TRACE = 0.42, 2.2
"""Inches that a bar and a trace take."""


def plot(path: Path, sections: Sequence[Section], machine: dict[str, str]) -> list[Path]:
    """`path` without its suffix, as .png and .svg; nothing if no section has anything to draw."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    drawn = [section for section in sections if _height(section)]
    if not drawn:
        return []
    mpl.rcParams.update({"svg.hashsalt": "millstream", "font.size": 9, "axes.spines.top": False})
    heights = [_height(section) for section in drawn]
    size = (8.5, sum(heights) + 0.75 * len(drawn) + 0.4)
    chart, axes = plt.subplots(
        len(drawn), 1, figsize=size, squeeze=False, layout="constrained", gridspec_kw={"height_ratios": heights}
    )
    for axis, section in zip(axes.flat, drawn, strict=True):
        if section.grid is not None:
            _grid_panel(axis, section, section.grid)
        elif section.traces:
            _trace_panel(axis, section)
        else:
            _panel(axis, section)
    about = f"{machine['cores'].split()[0]} cores, PySpark {machine['pyspark']}, DuckDB {machine['duckdb']}"
    chart.supxlabel(f"{about}; pale bars are for orientation", fontsize=8, color="#666666")
    path.parent.mkdir(parents=True, exist_ok=True)
    written = []
    for suffix, options in ((".png", {"dpi": 160}), (".svg", {"metadata": {"Date": None}})):
        target = path.with_suffix(suffix)
        chart.savefig(target, facecolor="white", **options)
        written.append(target)
    plt.close(chart)
    return written


def _height(section: Section) -> float:
    """Inches of a section's panel; 0 if there is nothing to draw."""
    if section.grid is not None:
        bars = sum(len(section.grid.ratios(rival)) for rival in section.grid.rivals)
        return 0.16 * bars + 0.1 * len(section.grid.rows) if bars else 0
    return _TRACE if section.traces else _BAR * len(section.figures)


def _panel(axis: Any, section: Section) -> None:
    figures = list(reversed(section.figures))
    # A limit that is ten times off would make the rest unreadable: its bar is cut, its figure is not.
    limit = 1.6 * max(figure.value for figure in figures if not figure.reference)
    for place, figure in enumerate(figures):
        color = _COLORS[figure.contender]
        axis.barh(place, min(figure.value, limit), color=color, alpha=0.45 if figure.reference else 1.0)
        cut = " →" if figure.value > limit else ""
        text = f"{spell(figure, figure.value)} {figure.unit}{cut}"
        _note(axis, text, min(figure.value, limit), place)
    axis.set_yticks(range(len(figures)), [figure.label for figure in figures])
    axis.set_xlim(0, limit * 1.25)
    axis.set_xticks([])
    axis.spines[["right", "bottom"]].set_visible(False)
    ratio = f": {section.targets[0].value:.2f} x {section.against}" if section.targets else ""
    _title(axis, section.title + ratio)


def _grid_panel(axis: Any, section: Section, grid: Grid) -> None:
    """A group of bars for each query: the ratio to each rival."""
    place, ticks, names, named = 0.0, [], [], set()
    for row in reversed(grid.rows):
        first = place
        for rival in reversed(grid.rivals):
            ratio = grid.ratio(row, rival)
            if ratio is None:
                continue
            label = None if rival in named else grid.labels[rival]
            named.add(rival)
            axis.barh(place, ratio, color=_COLORS[rival], label=label)
            _note(axis, f"{ratio:.2f}", ratio, place, size=6)
            place += 1
        if place > first:
            ticks.append((first + place - 1) / 2)
            names.append(row.query)
            place += 0.6
    axis.axvline(1, color="#444444", linewidth=0.8, linestyle="--")
    axis.set_yticks(ticks, names)
    axis.margins(y=0.01)
    axis.spines["right"].set_visible(False)
    axis.legend(loc="lower right", fontsize=7, frameon=False)
    _title(axis, f"{section.title}: times faster than …")


def _trace_panel(axis: Any, section: Section) -> None:
    """The first trace has the left axis, the others, which may be a hundred times smaller, the right one."""
    other = axis.twinx()
    lines = []
    for place, trace in enumerate(section.traces):
        scale, side = (other, "right") if place else (axis, "left")
        label = f"{trace.label}, {trace.unit} ({side})"
        lines += scale.plot(range(1, len(trace.values) + 1), trace.values, color=f"C{place}", label=label)
    for scale in (axis, other):
        scale.set_ylim(0)
    axis.set_xlabel("slice")
    axis.legend(handles=lines, loc="lower right", fontsize=7, frameon=False)
    _title(axis, section.title)


def _title(axis: Any, text: str) -> None:
    axis.set_title(text, loc="left", fontsize=9, fontweight="bold")


def _note(axis: Any, text: str, value: float, place: float, size: float = 9) -> None:
    """A figure at the end of its bar."""
    axis.annotate(text, (value, place), xytext=(4, 0), textcoords="offset points", va="center", fontsize=size)
