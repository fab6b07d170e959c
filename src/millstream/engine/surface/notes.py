"""What SHOW, DESCRIBE and EXPLAIN say about slack and completeness, in words."""

from __future__ import annotations

from collections.abc import Iterable

from millstream.model.lateness import Lateness, enough_rows
from millstream.model.progress import Completeness, Progress
from millstream.model.time import about_duration, format_duration
from millstream.plan.nodes import Stream
from millstream.plan.watermarks import slack_of


def slack_words(stream: Stream, progress: Progress | None) -> str | None:
    """How far the watermark of a stream runs behind now."""
    if stream.watermark is None:
        return None
    percentile = stream.watermark.percentile
    if percentile is None:
        return format_duration(stream.slack)
    lateness = (progress.lateness if progress is not None else None) or Lateness()
    slack = slack_of(stream.watermark, lateness)
    if slack is None:
        return f"waits for {enough_rows(percentile)} rows, has {lateness.rows}"
    return about_duration(slack)


def event_time_words(stream: Stream, progress: Progress | None) -> str:
    """What DESCRIBE says of the event time of a stream."""
    words = slack_words(stream, progress)
    if stream.percentile is None:
        return f"event time, watermark {words} behind"
    if words is not None and words.startswith("waits"):
        return f"event time, watermark at percentile {stream.percentile} {words}"
    return f"event time, watermark {words} behind, percentile {stream.percentile} of lateness"


def completeness_words(parts: Iterable[Completeness | None]) -> str:
    """How many of a view's rows had arrived when their windows fired."""
    known = [part for part in parts if part is not None]
    if not known:
        return "no window has fired yet"
    whole = _share(sum(part.on_time for part in known), sum(part.later for part in known))
    last = _share(sum(part.last_on_time for part in known), sum(part.last_later for part in known))
    return f"{whole} had arrived when their window fired; of the last window {last}"


def _share(on_time: int, later: int) -> str:
    rows = on_time + later
    # Rounded down, so that only what is complete is called so.
    return f"{on_time} of {rows} rows ({on_time * 10_000 // rows / 100:.2f} %)"
