"""The one error type users meet, in three parts: what, detail, hint.

Owns `MillstreamError` and the way it is shown. Every error raised to a program has a stable
`code`, listed in `model.error_codes`. Control flow looks at the class of an error, never at its code or text: where
a caller must tell an error from others, it is a subclass, defined next to the code that raises it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Self


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a user's SQL text: `start` and `end` are character offsets, end exclusive."""

    text: str
    start: int
    end: int
    source: str = "<sql>"

    @property
    def line(self) -> int:
        return self.text.count("\n", 0, self.start) + 1

    @property
    def column(self) -> int:
        return self.start - (self.text.rfind("\n", 0, self.start) + 1) + 1

    def excerpt(self) -> str:
        """The line of the text with the place underlined."""
        line_start = self.text.rfind("\n", 0, self.start) + 1
        line_end = self.text.find("\n", self.start)
        line = self.text[line_start : line_end if line_end >= 0 else len(self.text)]
        width = max(1, min(self.end, line_start + len(line)) - self.start)
        number = str(self.line)
        return (
            f"  {self.source}:{self.line}:{self.column}\n"
            f"  {number} | {line}\n"
            f"  {' ' * len(number)} | {' ' * (self.column - 1)}{'^' * width}"
        )


class Placed(str):
    """A word of a statement that knows where it stands; otherwise text like any other."""

    position: Position | None = None

    @classmethod
    def at(cls, word: str, position: Position) -> Self:
        placed = cls(word)
        placed.position = position
        return placed


def place_of(word: object, otherwise: Position | None) -> Position | None:
    """Where a word stands, or another place if it does not know."""
    return (word.position if isinstance(word, Placed) else None) or otherwise


class MillstreamError(Exception):
    """Anything Millstream refuses or cannot do, with what to do about it."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        detail: str | None = None,
        hint: str | None = None,
        position: Position | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.detail = detail
        self.hint = hint
        self.position = position

    def moved(self, position: Position | None, *, hint: str | None = None) -> Self:
        """The same error at another place in the text, perhaps with another hint."""
        return type(self)(
            self.code, self.message, detail=self.detail, hint=hint if hint is not None else self.hint, position=position
        )

    def __str__(self) -> str:
        parts = [f"error[{self.code}]: {self.message}"]
        if self.position is not None:
            parts.append(self.position.excerpt())
        if self.detail:
            parts.append(f"detail: {self.detail}")
        if self.hint:
            parts.append(f"hint: {self.hint}")
        return "\n".join(parts)


class UnavailableError(MillstreamError):
    """Something that everything needs is missing or full: no single view is at fault."""


class LostPartError(UnavailableError):
    """A process that computes went away: Spark's JVM or a Python worker. The same work can be done again."""


_DEFECTS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NotImplementedError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What a defect in our own code raises."""


def as_ours(error: Exception) -> MillstreamError:
    """An error as one of ours; any other exception is a defect."""
    return (
        error if isinstance(error, MillstreamError) else MillstreamError("INTERNAL", f"{type(error).__name__}: {error}")
    )


def own_fault(error: Exception) -> MillstreamError | None:
    """An error as the fault of the one view that was being worked on; None if it may be anything else's."""
    match error:
        case UnavailableError():
            return None
        case _ if isinstance(error, (MillstreamError, *_DEFECTS)):
            return as_ours(error)
    return None


class MillstreamWarning(UserWarning):
    """A statement was accepted, and probably does not do what its author meant."""


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """A hint that names the nearest known word, or lists what is known."""
    options = sorted(known)
    close = get_close_matches(word.lower(), options, n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]!r}?"
    if options:
        return "known: " + ", ".join(options)
    return None
