"""The EMIT clause: when a view publishes.

Owns the grammar

    EMIT ON EPOCH | EMIT <rate> | EMIT [EARLY <rate>] ON WATERMARK [LATE <rate>]
    <rate> = EVERY n ROWS | EVERY <interval> | ON EPOCH
    then [DISCARDING | ACCUMULATING | RETRACTING] [ALLOWED LATENESS <interval>]

What it returns satisfies `Emit`: either `repeatedly` is set, or `on_watermark` is.
"""

from __future__ import annotations

from typing import get_args

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from millstream.model.errors import MillstreamError, Position
from millstream.sql.grammar import Grammar
from millstream.sql.intervals import interval_micros
from millstream.sql.statements import (
    Accumulation,
    Emit,
    EveryEpoch,
    EveryInterval,
    EveryRows,
    Rate,
)

_FORMS = "write EMIT ON EPOCH, EMIT EVERY 5 SECONDS, EMIT ON WATERMARK or EMIT EARLY … ON WATERMARK LATE …"


class EmitGrammar(Grammar):
    """The rules of the EMIT clause."""

    def emit(self) -> Emit | None:
        """An EMIT clause if one begins here."""
        if not self._match_text_seq("EMIT"):
            return None
        repeatedly = early = late = None
        on_watermark = False
        if self._match_text_seq("EARLY"):
            early = self._rate("EARLY")
            if not self._match_text_seq("ON", "WATERMARK"):
                raise self.refusal("BAD_EMIT", "EARLY needs ON WATERMARK after its rate", hint=_FORMS)
            on_watermark = True
        elif self._match_text_seq("ON", "WATERMARK"):
            on_watermark = True
        else:
            repeatedly = self._rate("EMIT")
        if on_watermark:
            if self._match_text_seq("LATE"):
                late = self._rate("LATE")
        else:
            self._refuse_watermark_words()
        accumulation = self._accumulation()
        lateness = self._lateness()
        if lateness is not None and self._match_texts(_accumulations(), advance=False):
            word = self._curr.text.upper()
            raise self.refusal("BAD_EMIT", f"{word} comes before ALLOWED LATENESS")
        return Emit(repeatedly, on_watermark, early, late, accumulation or "accumulating", lateness)

    def _rate(self, after: str) -> Rate:
        if self._match_text_seq("ON", "EPOCH"):
            return EveryEpoch()
        if after == "EMIT" and self._match_text_seq("LATE", advance=False):
            self._refuse_watermark_words()
        if not self._match_text_seq("EVERY"):
            raise self.refusal(
                "BAD_EMIT", f"{after} needs a rate: EVERY n ROWS, EVERY <interval> or ON EPOCH", hint=_FORMS
            )
        return self._rows() or self._interval_rate()

    def _rows(self) -> EveryRows | None:
        first = self._curr
        start = self._index
        negative = self._match(TokenType.DASH)
        if not self._match(TokenType.NUMBER) or not self._match_texts(("ROW", "ROWS")):
            self._retreat(start)
            return None
        number = self._tokens[self._index - 2]
        if negative or not number.text.isdigit() or int(number.text) < 1:
            raise self.refusal("BAD_EMIT", "EVERY n ROWS needs a whole number of at least 1", first=first, last=number)
        return EveryRows(int(number.text))

    def _interval_rate(self) -> EveryInterval:
        micros, position = self.duration()
        if micros <= 0:
            raise MillstreamError("BAD_EMIT", "EVERY needs an interval longer than zero", position=position)
        return EveryInterval(micros)

    def _refuse_watermark_words(self) -> None:
        if self._match_text_seq("LATE", advance=False):
            raise self.refusal(
                "BAD_EMIT",
                "LATE needs ON WATERMARK before it",
                hint="a pane is late only after the watermark has fired its window: EMIT ON WATERMARK LATE …",
            )
        if self._match_text_seq("ON", "WATERMARK", advance=False):
            raise self.refusal(
                "BAD_EMIT",
                "a rate before ON WATERMARK needs EARLY",
                hint="write EMIT EARLY <rate> ON WATERMARK",
            )

    def _accumulation(self) -> Accumulation | None:
        for word in get_args(Accumulation):
            if self._match_text_seq(word.upper()):
                accumulation: Accumulation = word
                return accumulation
        return None

    def _lateness(self) -> int | None:
        if not self._match_text_seq("ALLOWED", "LATENESS"):
            return None
        micros, position = self.duration()
        if micros < 0:
            raise MillstreamError("BAD_EMIT", "ALLOWED LATENESS cannot be negative", position=position)
        return micros

    def duration(self) -> tuple[int, Position]:
        """A constant interval, with or without the word INTERVAL, and its place."""
        first = self._curr
        required = not self._match_set((TokenType.NUMBER, TokenType.STRING, TokenType.DASH), advance=False)
        node, position = self.placed(lambda: self._parse_interval(require_interval=required))
        if not isinstance(node, exp.Expr):
            raise self.refusal("BAD_INTERVAL", "expected an interval", hint="as in INTERVAL 5 SECONDS", first=first)
        return interval_micros(node, position), position


def _accumulations() -> tuple[str, ...]:
    return tuple(word.upper() for word in get_args(Accumulation))
