"""What was found as tables of text, the same for the terminal and for Markdown (`docs/benchmarks.md`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.grid import Grid
from bench.outcome import Figure, Section


@dataclass(frozen=True, slots=True)
class TextTable:
    """Rows of text under a title; the columns after the first `text_columns` are figures."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    text_columns: int = 1

    def markdown(self) -> str:
        marks = ["---" if place < self.text_columns else "---:" for place in range(len(self.header))]
        lines = [_line(self.header), f"|{'|'.join(marks)}|", *(_line(row) for row in self.rows)]
        return "\n".join(lines)


_NONE = "-"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def grid_table(section: Section, grid: Grid) -> TextTable:
    """Events per second of everyone, then the ratios; the last rows are their median, geometric mean and the worst."""
    names = (grid.ours, *grid.rivals)
    short = [grid.labels[name].replace(", ", " ").replace(":", "") for name in names]
    header = ("query", *(f"{label}, events/s" for label in short), *(f"/ {label}" for label in short[1:]))
    rows = []
    for row in grid.rows:
        speeds = []
        for name in names:
            best = row.best(name)
            speeds.append(_speed(grid.events / best) if best else ("failed" if _failed(row.absent[name]) else _NONE))
        ratios = (grid.ratio(row, rival) for rival in grid.rivals)
        rows.append((row.query, *speeds, *(_NONE if ratio is None else f"{ratio:.2f}" for ratio in ratios)))
    blank = ("",) * len(names)
    summaries = [grid.summary(rival) for rival in grid.rivals]
    rows.append(("median", *blank, *(f"{found.median:.2f}" if found else _NONE for found in summaries)))
    rows.append(("geometric mean", *blank, *(f"{found.mean:.2f}" if found else _NONE for found in summaries)))
    rows.append(
        ("worst", *blank, *(f"{found.worst:.2f} ({found.worst_query})" if found else _NONE for found in summaries))
    )
    return TextTable(section.title, header, tuple(rows))


def absence_lines(grid: Grid) -> list[str]:
    """Everything that has no time, by name and with the reason."""
    lines = [f"{grid.labels[name]} did not take part: {reason}" for name, reason in grid.skipped.items()]
    return lines + [f"{query}, {grid.labels[name]}: {reason}" for name, query, reason in grid.absences()]


def note_lines(section: Section) -> list[str]:
    """What a section says in words: what was not checked, a refusal, or the bounds that EXPLAIN names."""
    if "refused" in section.notes:
        return [f"{section.title}: refused, {section.notes['refused']}"]
    absent = [f"{label} did not take part: {reason}" for label, reason in section.notes.get("skipped", {}).items()]
    return [
        *absent,
        *section.notes.get("unchecked", ()),
        *(f"EXPLAIN: {line}" for line in section.notes.get("bounds", ())),
    ]


def trace_table(section: Section) -> TextTable:
    header = ("", "first third, mean", "middle third", "last third", "last / middle", "peak")
    rows = []
    for trace in section.traces:
        third = len(trace.values) // 3
        parts = (trace.values[:third], trace.values[third : 2 * third], trace.values[-third:])
        means = (f"{sum(part) / third:,.1f} {trace.unit}" for part in parts)
        rows.append((trace.label, *means, f"{trace.growth:.2f}", f"{max(trace.values):,.1f} {trace.unit}"))
    return TextTable(section.title, header, tuple(rows))


def figure_table(sections: Sequence[Section]) -> TextTable:
    rows = []
    for section in sections:
        for figure in section.figures:
            runs = ", ".join(spell(figure, value) for value in figure.runs)
            best = f"{spell(figure, figure.value)} {figure.unit}"
            rows.append((section.title, figure.label, best, runs, memory(figure.peak_bytes)))
    header = ("workload", "contender", "best", "runs", "peak memory")
    return TextTable("figures, best run", header, tuple(rows), text_columns=2)


def target_table(sections: Sequence[Section]) -> TextTable:
    rows = [
        (
            target.what,
            "met" if target.met else "missed",
            f"{target.comparison} {target.bound:g} {target.unit}",
            f"{target.value:.2f} {target.unit}",
        )
        for section in sections
        for target in section.targets
    ]
    return TextTable("targets", ("what", "", "asked", "found"), tuple(rows), text_columns=2)


def memory(peak_bytes: int) -> str:
    """
    >>> memory(3 * 2**29)
    '1.50 GiB'
    >>> memory(0)
    '-'
    """
    return f"{peak_bytes / 2**30:.2f} GiB" if peak_bytes else _NONE


def spell(figure: Figure, value: float) -> str:
    """
    >>> spell(Figure("x", "x", 0, "events/s", ()), 1_234_567)
    '1.23 M'
    >>> spell(Figure("x", "x", 0, "ms", ()), 123.456)
    '123.5'
    """
    if figure.unit == "events/s":
        return _speed(value)
    return f"{value:.2f}" if figure.unit == "s" else f"{value:.1f}"


def _speed(value: float) -> str:
    """
    >>> _speed(54_321)
    '54.3 k'
    """
    return f"{value / 1e6:.2f} M" if value >= 100_000 else f"{value / 1e3:.1f} k"


def _failed(reason: str) -> bool:
    return reason.startswith("failed")
