"""Names of the store's objects, and quoting.

Everything internal lives in the schema `ms`; what users may read are views in `main`.
"""

from __future__ import annotations


def quote(name: str) -> str:
    """A name as an identifier.

    >>> quote('a"b')
    '"a""b"'
    """
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text as a string constant."""
    return "'" + text.replace("'", "''") + "'"


def internal(name: str, part: str) -> str:
    """An internal table of a relation: `ms."bids.state"`."""
    return f"ms.{quote(f'{name}.{part}')}"


def public(name: str) -> str:
    """What readers see."""
    return f"main.{quote(name)}"


def removed(name: str) -> str:
    """The rows that a relation lost in the epoch that is being committed."""
    return f"temp.{quote(f'{name}.removed')}"


def added(name: str) -> str:
    """The rows that a relation gained in the epoch that is being committed."""
    return f"temp.{quote(f'{name}.added')}"
