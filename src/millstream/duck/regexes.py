"""Regular expressions that mean the same to Spark and to the store.

Owns which patterns a query may use and how the store writes them. Spark matches with Java's
expressions, the store with RE2, which has no look-around, no back references and no possessive
quantifiers. What both have but read differently is written out for the store, or refused.
"""

from __future__ import annotations

import re

from millstream.model.errors import MillstreamError

# Java's line ends, and what it means by space.
_END_OF_LINE = r"\n\r\x{85}\x{2028}\x{2029}"
_SPACE = r"\t\n\x{0B}\f\r "
_DOT = f"[^{_END_OF_LINE}]"
_ESCAPES = {"s": f"[{_SPACE}]", "S": f"[^{_SPACE}]"}
_KEPT = frozenset("dDwWbBtnrfA.+*?()[]{}|^$\\/-'\"&#@%,:;<>=!~_ `z")
_GROUP = re.compile(r"\((?!\?)|\(\?:")


def store_pattern(pattern: str) -> str:
    """The pattern as RE2 reads it with Java's meaning.

    >>> store_pattern("a.b")
    'a[^\\\\n\\\\r\\\\x{85}\\\\x{2028}\\\\x{2029}]b'
    """
    written: list[str] = []
    index, in_class = 0, False
    while index < len(pattern):
        letter = pattern[index]
        if letter == "\\":
            index += 1
            written.append(_escape(pattern, index, in_class))
        elif in_class:
            if letter == "[" or pattern.startswith("&&", index):
                raise _refused(pattern, "character classes within character classes")
            in_class = letter != "]" or pattern[index - 1] == "["
            written.append(letter)
        elif letter == "[":
            in_class = True
            written.append(letter)
            if pattern.startswith("[^", index):
                index += 1
                written.append("^")
            if pattern.startswith("]", index + 1):
                raise _refused(pattern, "an empty character class")
        elif letter == ".":
            written.append(_DOT)
        elif letter == "$":
            if index + 1 < len(pattern) and pattern[index + 1] not in ")|":
                raise _refused(pattern, "$ before the end")
            # Java's $ also stands before a line end that is the last of the text.
            written.append(rf"(?:\r\n|[{_END_OF_LINE}])?\z")
        elif letter == "(" and not _GROUP.match(pattern, index):
            raise _refused(pattern, "groups of the form (?…), except (?:…)")
        elif letter in "*+?}" and pattern.startswith("+", index + 1):
            raise _refused(pattern, "possessive quantifiers")
        else:
            written.append(letter)
        index += 1
    return "".join(written)


def _escape(pattern: str, index: int, in_class: bool) -> str:
    letter = pattern[index] if index < len(pattern) else ""
    if letter in _ESCAPES:
        if in_class and letter == "S":
            raise _refused(pattern, r"\S in a character class")
        return _SPACE if in_class else _ESCAPES[letter]
    if letter not in _KEPT or not letter:
        raise _refused(pattern, f"\\{letter}")
    return f"\\{letter}"


def store_replacement(replacement: str) -> str:
    r"""The replacement of regexp_replace as RE2 reads it.

    >>> store_replacement("$2-$1")
    '\\2-\\1'
    """

    def part(found: re.Match[str]) -> str:
        text = found.group(0)
        if text[0] == "$":
            if len(text) == 1:
                raise _refused(replacement, "$ without the number of a group")
            return f"\\{text[1]}"
        if len(text) == 1:
            raise _refused(replacement, "a backslash at the end")
        return "\\\\" if text[1] == "\\" else text[1]

    return re.sub(r"\$\d?|\\.?", part, replacement, flags=re.DOTALL)


def _refused(pattern: str, what: str) -> MillstreamError:
    return MillstreamError(
        "PATTERN_NOT_ALLOWED",
        f"the regular expression {pattern!r} has {what}",
        detail="a query may use what means the same on Spark (Java's expressions) and in the store (RE2)",
    )
