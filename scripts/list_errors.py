"""Prints docs/errors.md: `.venv/bin/python scripts/list_errors.py > docs/errors.md`."""

from __future__ import annotations

from millstream.model.error_codes import SECTIONS, Code

_HEAD = """\
# Error codes

Every error has a code, which stays the same from release to release. The command line prints it in brackets:
`error[UNKNOWN_COLUMN]: …`. A program finds it in `MillstreamError.code`, next to `message`, `detail`, `hint` and
`position`.

This page is printed from the code: do not edit it, run `scripts/list_errors.py`.
"""


def page() -> str:
    return _HEAD + "".join(_section(title, codes) for title, codes in SECTIONS.items())


def _section(title: str, codes: dict[str, Code]) -> str:
    rows = [f"| `{name}` | {code.meaning} | {code.cause} | {code.remedy} |" for name, code in sorted(codes.items())]
    return "\n".join(["", f"## {title}", "", "| code | meaning | cause | remedy |", "|---|---|---|---|", *rows, ""])


if __name__ == "__main__":
    print(page(), end="")
