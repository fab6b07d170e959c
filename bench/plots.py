"""What was found, drawn: an SVG for each workload, and one of the memory of all.

What always holds: the same sections are the same files, byte for byte. Pale bars are for orientation; a small mark is a
run, a bar or a line the best of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from bench.outcome import Figure, Section
from bench.tables import spell

_COLORS = {
    "millstream": "#1f6f8b",
    "millstream_own": "#1f6f8b",
    "native": "#e08e45",
    "native_tuned": "#b5651d",
    "flink_heap": "#8e5ea2",
    "flink_rocksdb": "#c39bd3",
}
_GREY, _TEXT, _MARK = "#a9a9a9", "#444444", "#222222"
_WORKLOAD_COLORS = {"W1": "#1f6f8b", "W2": "#7fb7be", "nexmark": "#d3a15f"}
_WIDTH = 8.5
_AXES = {
    "groups": "groups",
    "groups kept": "groups in the view",
    "disorder": "disorder, s",
    "log partitions": "partitions of the log",
    "epoch size": "rows in an epoch",
    "window size": "size of windows, s",
}
"""What growth varies, by the end of a section's name."""
_STYLE: dict[Any, Any] = {
    "svg.hashsalt": "millstream",
    "font.size": 10,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid.axis": "both",
    "grid.color": "#e4e4e4",
    "axes.axisbelow": True,
    "legend.frameon": False,
    "legend.fontsize": 9,
}


def draw(folder: Path, sections: Sequence[Section]) -> dict[str, Path]:
    """The files by workload, and `memory`; an image that nothing is left to draw for is removed."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    drawn = {}
    with mpl.rc_context(_STYLE):
        for name, chart in CHARTS.items():
            path = folder / f"{name.lower()}.svg"
            own = [one for one in sections if _drawable(one) and (name == "memory" or one.workload == name)]
            figure = chart(plt, own) if own else None
            if figure is None:
                path.unlink(missing_ok=True)
                continue
            figure.savefig(path, facecolor="white", metadata={"Date": None})
            plt.close(figure)
            drawn[name] = path
    return drawn


def _drawable(section: Section) -> bool:
    return bool(section.figures or section.grid or section.traces)


def _bars(plt: Any, sections: Sequence[Section]) -> Any:
    """A panel for each section, the best on top; what is for orientation below."""
    heights = [0.36 * len(section.figures) + 0.45 for section in sections]
    figure, axes = _panels(plt, len(sections), 1, sum(heights) + 0.3, height_ratios=heights)
    for axis, section in zip(axes, sections, strict=True):
        shown = _sorted(section.figures)
        # A limit that is ten times off would make the rest unreadable: its bar is cut, its figure is not.
        limit = 1.5 * max(one.value for one in shown if not one.reference)
        for place, one in enumerate(shown):
            end = min(one.value, limit)
            axis.barh(place, end, color=_color(one.contender), alpha=0.4 if one.reference else 1.0, height=0.72)
            runs = [value for value in one.runs if value <= limit]
            if len(one.runs) > 1:
                axis.plot(runs, [place] * len(runs), "|", color=_MARK, markersize=9)
            cut = " →" if one.value > limit else ""
            right = max([end, *runs])
            _note(axis, f"{spell(one, one.value)} {one.unit}{cut}", right, place)
        axis.set_yticks(range(len(shown)), [one.label for one in shown])
        axis.invert_yaxis()
        axis.set_xlim(0, limit * 1.22)
        axis.set_xticks([])
        axis.spines["bottom"].set_visible(False)
        axis.tick_params(left=False)
        axis.set_title(section.title)
    return figure


def _sorted(figures: Sequence[Figure]) -> list[Figure]:
    """Contenders by what they reached; several figures of one contender as they are."""
    if len({figure.contender for figure in figures}) == 1:
        return list(figures)
    sign = -1 if figures[0].unit == "events/s" else 1
    return sorted(figures, key=lambda figure: (figure.reference, sign * figure.value))


def _nexmark(plt: Any, sections: Sequence[Section]) -> Any:
    """For each query the ratio to each rival, on a logarithmic scale."""
    grid = sections[0].grid
    if grid is None or not any(grid.ratios(rival) for rival in grid.rivals):
        return None
    shown = [row for row in grid.rows if any(grid.ratio(row, rival) is not None for rival in grid.rivals)]
    figure, (axis,) = _panels(plt, 1, 1, 0.27 * len(shown) + 1.6)
    place = {row.query: number for number, row in enumerate(shown)}
    every = [ratio for rival in grid.rivals for ratio in grid.ratios(rival).values()]
    for row in shown:
        found = [ratio for rival in grid.rivals if (ratio := grid.ratio(row, rival)) is not None]
        axis.plot([min(found), max(found)], [place[row.query]] * 2, color="#d0d0d0", zorder=1)
    for rival, mark in zip(grid.rivals, "osD", strict=False):
        ratios, summary = grid.ratios(rival), grid.summary(rival)
        if summary is not None:
            label = f"{grid.labels[rival]} (geometric mean {summary.mean:.2f})"
            at = [place[query] for query in ratios]
            axis.plot(ratios.values(), at, mark, color=_color(rival), label=label, markersize=6)
    axis.set_xscale("log")
    axis.axvline(1, color=_MARK, linewidth=1.2)
    low, high = min(0.8, 0.8 * min(every)), max(2.0, 1.25 * max(every))
    axis.set_xlim(low, high)
    ticks = [tick for tick in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100) if low <= tick <= high]
    axis.set_xticks(ticks, [f"{tick:g} x" for tick in ticks])
    axis.minorticks_off()
    axis.set_yticks(list(place.values()), list(place))
    axis.set_ylim(len(place) - 0.4, -0.6)
    axis.grid(True)
    axis.set_title(f"{sections[0].title}: how many times as fast Millstream is")
    figure.legend(loc="outside lower center")
    return figure


def _latency(plt: Any, sections: Sequence[Section]) -> Any:
    """A panel for each percentile: milliseconds against the rate, both logarithmic."""
    figures = [figure for section in sections for figure in section.figures]
    parts = list(dict.fromkeys(figure.part for figure in figures))
    chart, axes = _panels(plt, 1, len(parts), 3.7, sharey=True)
    for axis, part in zip(axes, parts, strict=True):
        for contender, own in _by(figures, lambda one: one.contender).items():
            points = [one for one in own if one.part == part]
            label = own[0].label.rpartition(",")[0] if part == parts[0] else None
            _line(axis, points, _color(contender), label)
        _across(axis, [one.at for one in figures if one.at])
        axis.margins(x=0.12)
        axis.set_xlabel("events/s")
        axis.set_title(part)
        axis.grid(True)
    _upward(axes[0], [value for one in figures for value in one.runs])
    axes[0].set_ylabel("ms from insert to visible")
    chart.legend(loc="outside lower center", ncols=2)
    return chart


def _queries(plt: Any, sections: Sequence[Section]) -> Any:
    """Seconds against the number of standing queries, both logarithmic; dashed, what one after the other would take."""
    figures = sections[0].figures
    chart, (axis,) = _panels(plt, 1, 1, 4.0)
    for contender, points in _by(figures, lambda one: one.contender).items():
        color, name = _color(contender), points[0].label.partition(":")[0]
        _line(axis, points, color, name)
        below = contender == "millstream"
        for point in points:
            text, where, offset = f"{point.value:.3g} s", (point.at, point.value), (0, -15 if below else 8)
            axis.annotate(text, where, xytext=offset, textcoords="offset points", ha="center", fontsize=9)
        first = points[0]
        if first.at == 1 and len(points) > 1:
            last = points[-1].at or 1
            axis.plot([1, last], [first.value, first.value * last], "--", color=color, linewidth=0.9, alpha=0.7)
    _across(axis, [one.at for one in figures if one.at])
    _upward(axis, [value for one in figures for value in one.runs], below=0.6, above=1.9)
    axis.margins(x=0.08)
    axis.set_xlabel("standing queries")
    axis.set_ylabel("seconds")
    axis.grid(True)
    axis.legend(loc="upper left")
    axis.set_title(f"{sections[0].title} (dashed: so many times the time of one)")
    return chart


def _growth(plt: Any, sections: Sequence[Section]) -> Any:
    """A panel for each thing that is varied: events per second, on one scale."""
    columns = min(3, len(sections))
    rows = -(-len(sections) // columns)
    chart, axes = _panels(plt, rows, columns, 2.6 * rows, sharey=True)
    for axis, section in zip(axes, sections, strict=False):
        what = section.name.removeprefix("growth ")
        # A limit is far above, where the rest would be flat below it: it is in the table.
        scaled = [_scaled(figure, 1e-6) for figure in section.figures if not figure.reference]
        _line(axis, scaled, _color("millstream"))
        at = [figure.at for figure in scaled if figure.at is not None]
        if 0 in at:
            axis.set_xscale("symlog", linthresh=1)
            axis.set_xticks(at, [_count(value) for value in at])
            axis.minorticks_off()
        else:
            _across(axis, at)
        axis.set_xlabel(_AXES.get(what, what))
        axis.set_ylim(0)
        axis.margins(x=0.08)
        axis.grid(True)
        axis.set_title(what)
    for place, axis in enumerate(axes):
        axis.set_visible(place < len(sections))
        if place % columns == 0:
            axis.set_ylabel("M events/s")
    return chart


def _recovery(plt: Any, sections: Sequence[Section]) -> Any:
    """Seconds against the number of groups: until the database was open, and until the first commit."""
    figures = sections[0].figures
    chart, (axis,) = _panels(plt, 1, 1, 3.4)
    for part, points in _by(figures, lambda one: one.part).items():
        _line(axis, points, _GREY if points[0].reference else _color("millstream"), part)
    _across(axis, [one.at for one in figures if one.at])
    axis.set_ylim(0)
    axis.set_xlabel("groups in the state")
    axis.set_ylabel("s from the start of the process")
    axis.grid(True)
    axis.legend(loc="lower right")
    axis.set_title("after a kill")
    return chart


def _traces(plt: Any, sections: Sequence[Section]) -> Any:
    """Memory over the run on top; the store, which is far smaller, on a scale of its own below."""
    shown = [section for section in sections if section.traces]
    if not shown:
        return None
    chart, axes = _panels(plt, 2, len(shown), 5.0, sharex=True, height_ratios=[1, 1])
    for column, section in enumerate(shown):
        for place, trace in enumerate(section.traces):
            axis = axes[column if place == 0 else len(shown) + column]
            axis.plot(range(1, len(trace.values) + 1), trace.values, color=f"C{place}", label=trace.label)
        for row in (0, 1):
            axis = axes[row * len(shown) + column]
            axis.margins(x=0.02)
            axis.set_ylim(0, axis.get_ylim()[1] * 1.25)
            axis.grid(True)
            axis.legend(loc="upper right", fontsize=8.5)
            if column == 0:
                axis.set_ylabel(section.traces[0].unit)
        axes[column].set_title(section.title.partition(",")[0])
        axes[len(shown) + column].set_xlabel("slice of ten seconds")
    return chart


def _memory(plt: Any, sections: Sequence[Section]) -> Any:
    """The peak of each contender in the workloads that have several."""
    peaks: dict[str, dict[str, float]] = {}
    names: dict[str, str] = {}
    for section in sections:
        if section.workload not in _WORKLOAD_COLORS:
            continue
        found = [(one.contender, one.label, one.peak_bytes) for one in section.figures]
        if section.grid is not None:
            labels = section.grid.labels
            found += [(name, labels[name], peak) for row in section.grid.rows for name, peak in row.peak_bytes.items()]
        for contender, label, peak in found:
            names.setdefault(contender, label)
            known = peaks.setdefault(contender, {})
            known[section.workload] = max(known.get(section.workload, 0), peak / 2**30)
    workloads = [name for name in _WORKLOAD_COLORS if any(own.get(name) for own in peaks.values())]
    if not workloads:
        return None
    order = sorted(peaks, key=lambda contender: -max(peaks[contender].values()))
    chart, (axis,) = _panels(plt, 1, 1, 0.22 * sum(len(own) for own in peaks.values()) + 0.2 * len(order) + 0.9)
    place, ticks = 0.0, []
    for contender in order:
        own = [name for name in workloads if peaks[contender].get(name)]
        ticks.append(place + (len(own) - 1) / 2)
        for name in own:
            axis.barh(place, peaks[contender][name], color=_WORKLOAD_COLORS[name], height=0.9)
            _note(axis, f"{peaks[contender][name]:.2f}", peaks[contender][name], place, size=8.5)
            place += 1
        place += 0.8
    for name in workloads:
        axis.barh(0, 0, color=_WORKLOAD_COLORS[name], label=name)
    axis.set_yticks(ticks, [names[contender] for contender in order])
    axis.invert_yaxis()
    axis.tick_params(left=False)
    axis.margins(x=0.1)
    axis.set_xlabel("GiB")
    chart.legend(loc="outside lower right", ncols=len(workloads))
    return chart


CHARTS: dict[str, Callable[[Any, Sequence[Section]], Any]] = {
    "W1": _bars,
    "W2": _bars,
    "W3": _bars,
    "W4": _bars,
    "nexmark": _nexmark,
    "state": _traces,
    "latency": _latency,
    "queries": _queries,
    "growth": _growth,
    "recovery": _recovery,
    "memory": _memory,
}


def _panels(plt: Any, rows: int, columns: int, height: float, **options: Any) -> tuple[Any, list[Any]]:
    """A figure and its axes, row by row."""
    figure, axes = plt.subplots(rows, columns, figsize=(_WIDTH, height), squeeze=False, layout="constrained", **options)
    return figure, list(axes.flat)


def _by(figures: Iterable[Figure], key: Callable[[Figure], str]) -> dict[str, list[Figure]]:
    """In the order of where they are measured."""
    found: dict[str, list[Figure]] = {}
    for figure in figures:
        found.setdefault(key(figure), []).append(figure)
    return {name: sorted(own, key=lambda one: one.at or 0) for name, own in found.items()}


def _line(axis: Any, points: Sequence[Figure], color: str, label: str | None = None) -> None:
    """The best of each point, joined, and every run."""
    axis.plot([one.at for one in points], [one.value for one in points], "o-", color=color, label=label, markersize=5)
    for one in points:
        if len(one.runs) > 1:
            axis.plot([one.at] * len(one.runs), one.runs, "_", color=_MARK, markersize=8, alpha=0.7)


def _scaled(figure: Figure, by: float) -> Figure:
    runs = tuple(value * by for value in figure.runs)
    return Figure(figure.contender, figure.label, figure.value * by, figure.unit, runs, at=figure.at)


def _across(axis: Any, values: Iterable[float]) -> None:
    """A logarithmic axis whose ticks are the values that were measured."""
    ticks = sorted(set(values))
    axis.set_xscale("log")
    axis.set_xticks(ticks, [_count(tick) for tick in ticks])
    axis.set_xticks([], minor=True)


def _upward(axis: Any, values: Sequence[float], below: float = 0.7, above: float = 1.4) -> None:
    """The other axis: 1, 2, 5, 10 and so on, as far as there are values."""
    low, high = min(values) * below, max(values) * above
    axis.set_yscale("log")
    axis.set_ylim(low, high)
    ticks = [base * 10.0**power for power in range(-3, 7) for base in (1, 2, 5) if low <= base * 10.0**power <= high]
    axis.set_yticks(ticks, [f"{tick:,g}" for tick in ticks])
    axis.minorticks_off()


def _count(value: float) -> str:
    """
    >>> _count(1), _count(10_000), _count(5_000_000)
    ('1', '10 k', '5 M')
    """
    if value >= 1e6:
        return f"{value / 1e6:g} M"
    return f"{value / 1e3:g} k" if value >= 1e3 else f"{value:g}"


def _color(contender: str) -> str:
    return _COLORS.get(contender, _GREY)


def _note(axis: Any, text: str, value: float, place: float, size: float = 9.5) -> None:
    """A figure at the end of its bar."""
    axis.annotate(
        text, (value, place), xytext=(5, 0), textcoords="offset points", va="center", fontsize=size, color=_TEXT
    )
