"""Formats of times: as sqlglot holds them, and as the store writes and reads them.

Owns which letters of Spark's formats a query may use. Spark is strict about the number of digits
where the store is not, so a text is also matched against a regular expression before it is read.
"""

from __future__ import annotations

import re
from itertools import pairwise

from millstream.model.errors import MillstreamError

_READ = {
    "%Y": "[0-9]{4}",
    "%mstrict": "[0-9]{2}",
    "%dstrict": "[0-9]{2}",
    "%Hstrict": "[0-9]{2}",
    "%Mstrict": "[0-9]{2}",
    "%Sstrict": "[0-9]{2}",
    "%-m": "[0-9]{1,2}",
    "%-d": "[0-9]{1,2}",
    "%-H": "[0-9]{1,2}",
    "%-M": "[0-9]{1,2}",
    "%-S": "[0-9]{1,2}",
}
_WRITTEN = {*_READ, "%y", "%Istrict", "%-I", "%p", "%A", "%a", "%b", "%B"}
_PART = re.compile(r"%-?[A-Za-z](?:strict)?")


def check_written(format_: str) -> None:
    """Refuse a format that times are not printed alike with."""
    _check(format_, _WRITTEN)


def check_read(format_: str) -> None:
    """Refuse a format that texts are not read alike with."""
    _check(format_, set(_READ))


def strftime_format(format_: str) -> str:
    """A format for strftime and strptime.

    >>> strftime_format("%dstrict/%mstrict/%Y")
    '%d/%m/%Y'
    """
    check_written(format_)
    return _PART.sub(lambda part: part.group(0).removesuffix("strict"), format_)


def format_regex(format_: str) -> str:
    """What a text must look like to be read with a format.

    >>> format_regex("%Y-%mstrict")
    '[0-9]{4}\\\\-[0-9]{2}'
    """
    check_read(format_)
    written, at = "", 0
    for part in _PART.finditer(format_):
        written += re.escape(format_[at : part.start()]) + _READ[part.group(0)]
        at = part.end()
    return written + re.escape(format_[at:])


# What Spark writes with one letter, however often: more of them than are known are read as two parts.
_LETTERS = {"Y": "y", "y": "y", "m": "M", "b": "M", "B": "M", "A": "E", "a": "E"}


def _check(format_: str, known: set[str]) -> None:
    parts = list(_PART.finditer(format_))
    for part in parts:
        if part.group() not in known:
            raise _refused(part.group())
    for part, after in pairwise(parts):
        letters = [_LETTERS.get(letter, letter) for one in (part, after) for letter in one.group().strip("%-")[:1]]
        if part.end() == after.start() and letters[0] == letters[1]:
            raise _refused(part.group() + after.group())
    rest = _PART.sub("", format_)
    if re.search(r"[A-Za-z%'#{}\[\]]", rest):
        raise _refused(rest)


def _refused(part: str) -> MillstreamError:
    return MillstreamError(
        "FORMAT_NOT_ALLOWED",
        f"this format of a time is not part of StreamSQL: {part}",
        hint="use yyyy MM dd HH mm ss, and for printing also yy hh a EEEE EEE MMMM MMM",
    )
