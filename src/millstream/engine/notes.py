"""What SHOW, DESCRIBE and EXPLAIN say about slack, in words."""

from __future__ import annotations

from millstream.model.time import about_duration, format_duration
from millstream.plan.lateness import Lateness, enough_rows, slack_of
from millstream.plan.nodes import Stream
from millstream.store.protocol import Progress


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
