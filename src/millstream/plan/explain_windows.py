"""EXPLAIN's words for windows: what they are, what Spark groups by, what their state is bounded by."""

from __future__ import annotations

from millstream.model.time import format_duration
from millstream.plan.nodes import AggregateView
from millstream.plan.windows import AnyWindow, CountWindow, SessionWindow, SlideWindow, Window


def explain_window(window: AnyWindow) -> str:
    match window:
        case CountWindow(rows, slide):
            every = "" if rows == slide else f", every {slide} rows"
            return f"the last {rows} rows{every}{_per(window.partition_by)}, in order of arrival"
        case SessionWindow(_, gap):
            return f"session, gap {format_duration(gap)} on {_time(window)}{_per(window.partition_by)}"
        case SlideWindow(_, size):
            return f"slide over {format_duration(size)} on {_time(window)}{_per(window.partition_by)}, at every event"
        case Window(_, size, slide, offset):
            shift = f", offset {format_duration(offset)}" if offset else ""
            if window.is_tumbling:
                return f"tumble {format_duration(size)}{shift} on {_time(window)}"
            pane = format_duration(window.pane_size)
            return (
                f"hop {format_duration(size)} by {format_duration(slide)}{shift} on {_time(window)}, in panes of {pane}"
            )


def explain_pane(window: AnyWindow) -> str:
    """What the partial aggregates are by, besides the keys."""
    match window:
        case CountWindow():
            return "row"
        case SlideWindow():
            return "instant"
        case SessionWindow(_, gap):
            return f"stretch of {format_duration(gap)}"
        case _:
            return "pane"


def explain_keyed_state(view: AggregateView) -> str:
    """What a view with windows of keys keeps, and what bounds that."""
    window = view.window
    match window:
        case CountWindow():
            return "the rows of each key that a window to come needs; unbounded in the number of keys"
        case SessionWindow():
            what = "one row per open session, and its published row"
        case _:
            assert isinstance(window, SlideWindow)
            what = "one row per key and instant, as long as an open window reaches back to it"
    if not view.windows_close:
        return f"{what}; unbounded: the windows are not on the event time of the stream"
    closer = "the clock" if view.on_clock else "the watermark of the stream"
    late = f", kept {format_duration(view.lateness)} longer for late rows" if view.lateness else ""
    contents = "" if view.retain is not None else "; published rows of closed windows stay (bound them with retain)"
    return f"{what}; closed by {closer}{late}{contents}"


def _time(window: Window | SessionWindow | SlideWindow) -> str:
    return window.time_column or "processing time"


def _per(keys: tuple[str, ...]) -> str:
    return f" per {', '.join(keys)}" if keys else " over the whole stream"
