"""What was found as tables of text, the same for the terminal and for Markdown (`docs/benchmarks.md`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.grid import Grid, QueryTimes
from bench.outcome import Figure, Section, Target


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
_SIGNS = {">=": "≥", "<=": "≤"}


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def grid_table(section: Section, grid: Grid) -> TextTable:
    """Events per second of everyone, best run and slowest, then the ratios, of the best; last what sums them up."""
    names = (grid.ours, *grid.rivals)
    short = [grid.labels[name].replace(", ", " ").replace(":", "") for name in names]
    header = ("query", *short, *(f"/ {label}" for label in short[1:]))
    rows = []
    for row in grid.rows:
        speeds = [_speeds(grid, row, name) for name in names]
        ratios = (grid.ratio(row, rival) for rival in grid.rivals)
        rows.append((row.query, *speeds, *(_NONE if ratio is None else f"{ratio:.2f}" for ratio in ratios)))
    blank = ("",) * len(names)
    rows += [(what, *blank, *cells) for what, *cells in _summaries(grid, grid.rivals)]
    title = f"{section.title}: events/s of the best run (of the slowest), and times as fast as others"
    return TextTable(title, header, tuple(rows))


def limit_table(section: Section, grid: Grid) -> TextTable:
    """Our speed as a share of that of each limit, with the limit's own; last what sums the shares up."""
    rows = [(row.query, *(_share(grid, row, limit) for limit in grid.limits)) for row in grid.rows]
    rows += _summaries(grid, grid.limits)
    title = f"{section.title}: limits; {grid.labels[grid.ours]}, as a share of the speed of each (its events/s)"
    return TextTable(title, ("query", *(grid.labels[name] for name in grid.limits)), tuple(rows))


def _share(grid: Grid, row: QueryTimes, limit: str) -> str:
    ratio, speed = grid.ratio(row, limit), _speeds(grid, row, limit)
    if not row.seconds.get(limit):
        return speed
    return f"{_NONE if ratio is None else f'{ratio:.2f}'} ({speed})"


def grid_tables(section: Section, grid: Grid) -> list[TextTable]:
    """The rivals, and the limits if there are any."""
    return [grid_table(section, grid), *([limit_table(section, grid)] if grid.limits else [])]


def _summaries(grid: Grid, others: Sequence[str]) -> list[tuple[str, ...]]:
    """What sums up the ratios to each of the others."""
    found = [grid.summary(other) for other in others]
    return [
        ("median", *(f"{one.median:.2f}" if one else _NONE for one in found)),
        ("geometric mean", *(f"{one.mean:.2f}" if one else _NONE for one in found)),
        ("worst", *(f"{one.worst:.2f} ({one.worst_query})" if one else _NONE for one in found)),
    ]


def _speeds(grid: Grid, row: QueryTimes, name: str) -> str:
    seconds = row.seconds.get(name)
    if not seconds:
        return "failed" if row.absent[name].startswith("failed") else _NONE
    best = _speed(grid.events / min(seconds))
    return f"{best} ({_speed(grid.events / max(seconds))})" if len(seconds) > 1 else best


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
        *(f"what `EXPLAIN` says of its bounds: {line}" for line in section.notes.get("bounds", ())),
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


def figure_table(section: Section) -> TextTable:
    """Everyone's best run, all runs in their order, and the peak of the memory over them."""
    rows = []
    for figure in section.figures:
        best = f"{spell(figure, figure.value)} {figure.unit}"
        runs = ", ".join(spell(figure, value) for value in figure.runs)
        rows.append((figure.label, best, runs, memory(figure.peak_bytes)))
    return TextTable(section.title, ("", "best", "all runs", "peak memory"), tuple(rows))


def target_table(sections: Sequence[Section]) -> TextTable:
    rows = [
        (
            section.workload,
            target.what,
            f"{'aim: ' if target.aim else ''}{_SIGNS[target.comparison]} {target.bound:g} {target.unit}",
            _NONE
            if target.value is None
            else f"{target.value:{'.0f' if target.unit == 'ms' else '.2f'}} {target.unit}",
            verdict(target),
        )
        for section in sections
        for target in section.targets
    ]
    header = ("workload", "what", "target", "found", "")
    return TextTable("targets", header, tuple(rows), text_columns=2)


def verdict(target: Target) -> str:
    """
    >>> verdict(Target("", ">=", 2, 1.9, "x")), verdict(Target("", "<=", 100, 130, "ms", aim=True))
    ('missed', 'aim not reached')
    """
    if target.value is None:
        return "not measured"
    if target.aim:
        return "aim reached" if target.met else "aim not reached"
    return "met" if target.met else "missed"


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
