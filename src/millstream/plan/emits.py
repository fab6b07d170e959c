"""Which EMIT has a meaning for which kind of window; the others are refused with the reason."""

from __future__ import annotations

from millstream.plan.reading import Reading
from millstream.plan.refusals import MisplacedTriggerError
from millstream.plan.windows import CountWindow, SlideWindow
from millstream.sql.statements import EveryEpoch


def check_emit(reading: Reading) -> None:
    """Refuse an EMIT that says nothing about the windows of a query."""
    emit, window, query = reading.create.emit, reading.window, reading.create.query
    if window is None:
        return
    if isinstance(window, CountWindow):
        if emit.lateness is not None:
            raise reading.error(
                "LATENESS_WITHOUT_WINDOW",
                "ALLOWED LATENESS has no meaning here: a count window takes rows as they come, none is late",
                query,
                hint="leave it out",
                kind=MisplacedTriggerError,
            )
        if not isinstance(emit.repeatedly, EveryEpoch) or emit.accumulation != "accumulating":
            raise reading.error(
                "EMIT_ON_COUNT_WINDOW",
                "a count window is complete by its count: it is published once, when its last row comes",
                query,
                detail="no watermark closes it, and there is nothing to publish before or to correct after",
                hint="leave out EMIT",
                kind=MisplacedTriggerError,
            )
    if isinstance(window, SlideWindow) and emit.accumulation == "discarding":
        raise reading.error(
            "EMIT_ON_SLIDE",
            "DISCARDING has no meaning for SLIDE: the windows share their rows",
            query,
            detail="a row that came since the last firing of one window was published by others before",
            hint="use ACCUMULATING or RETRACTING",
            kind=MisplacedTriggerError,
        )
    if window.on_clock and emit.lateness is not None:
        raise reading.error(
            "LATENESS_WITHOUT_WINDOW",
            "ALLOWED LATENESS has no meaning on processing time: no row is late",
            query,
            hint="leave it out",
            kind=MisplacedTriggerError,
        )
    if window.on_clock and emit.late is not None:
        raise reading.error(
            "LATENESS_WITHOUT_WINDOW",
            "LATE has no meaning on processing time: no row is late",
            query,
            hint="leave it out",
            kind=MisplacedTriggerError,
        )
