"""Which decoded rows are dead all the same: event times that are missing, too far ahead or no times of anything.

Owns the reasons, in words; each way to decode rows applies them in this order.
"""

from __future__ import annotations

from datetime import datetime

from millstream.model.time import format_duration, to_micros
from millstream.plan.nodes import Stream

# Instants outside of these are no times of anything, and windows around them would leave the calendar.
OLDEST = to_micros(datetime(1000, 1, 1))
NEWEST = to_micros(datetime(9000, 1, 1))


def missing_time(stream: Stream) -> str:
    return f"event time {stream.event_time} is NULL"


def time_ahead(stream: Stream, max_ahead: int) -> str:
    return f"event time {stream.event_time} runs more than {format_duration(max_ahead)} ahead"


def time_out_of_range(stream: Stream) -> str:
    return f"event time {stream.event_time} is out of range"
