"""The plot of a soak: memory, disk, and threads and files over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_PANELS = (
    ("memory, MiB", ("python", "jvm", "heap", "workers")),
    ("disk, MiB", ("store", "wal", "log", "other")),
    ("threads and open files", ("threads", "files")),
)
_COLORS = ("#1f6f8b", "#e08e45", "#8e5ea2", "#a9a9a9")
_STYLE: dict[Any, Any] = {
    "svg.hashsalt": "millstream",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def draw(samples: Sequence[Mapping[str, float]], path: Path) -> None:
    """Write the plot as SVG; the same samples are the same file."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot as plt

    minutes = [sample["seconds"] / 60 for sample in samples]
    with plt.rc_context(_STYLE):
        figure, axes = plt.subplots(len(_PANELS), 1, figsize=(8.5, 7.5), sharex=True, layout="constrained")
        for axis, (label, names) in zip(axes, _PANELS, strict=True):
            for name, color in zip(names, _COLORS, strict=False):
                axis.plot(minutes, [sample[name] for sample in samples], label=name, color=color, linewidth=1.4)
            axis.set_ylabel(label)
            axis.set_ylim(bottom=0)
            axis.legend(loc="upper left", ncols=len(names), frameon=False)
        axes[-1].set_xlabel("minutes")
        figure.savefig(path, metadata={"Date": None})
        plt.close(figure)
