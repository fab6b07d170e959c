"""The terminal: where output goes and how errors look there.

Owns the two consoles, the way an error is printed, and the files of the user's state directory
(history, log). What always holds: results go to stdout, everything else to stderr; a
`MillstreamError` shows the same fields as it does in a program; nobody sees a traceback unless
they ask for it.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import threading
import traceback
import warnings
from pathlib import Path

from rich.console import Console
from rich.text import Text

from millstream.model.errors import MillstreamError


class Terminal(Console):
    """A console that leaves it to the command what a reader who went away means."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


# In a pipe nobody's window limits a line.
OUT = Terminal(highlight=False, width=None if sys.stdout.isatty() else 160)
ERR = Terminal(stderr=True, highlight=False)

_STYLES = (
    (re.compile(r"^error\[[A-Z_0-9]+\]"), "bold red"),
    (re.compile(r"^(?:hint|detail):"), "bold cyan"),
    (re.compile(r"^\s+\|\s*(\^+)$"), "bold red"),
    (re.compile(r"^  \S+:\d+:\d+$"), "dim"),
)


def print_error(error: MillstreamError) -> None:
    """The error as its class shows it, in colour on a terminal."""
    for line in str(error).splitlines():
        text = Text(line)
        for pattern, style in _STYLES:
            text.highlight_regex(pattern, style)
        ERR.print(text, soft_wrap=True)


def print_unexpected(error: BaseException, *, debug: bool) -> None:
    """An exception that is our defect: one line, and the rest in the log file."""
    trace = "".join(traceback.format_exception(error))
    logging.getLogger("millstream.cli").error("unexpected error\n%s", trace)
    if debug:
        ERR.print(Text(trace))
    first = (str(error).strip().splitlines() or [""])[0]
    ERR.print(
        Text(f"unexpected {type(error).__name__}: {first} (please report this; the details are in {log_file()})"),
        soft_wrap=True,
    )


def note(message: str) -> None:
    """A line about what was done, apart from the results."""
    ERR.print(Text(message, style="dim"), soft_wrap=True)


def state_directory() -> Path:
    """Where this user's history and log live, by the XDG rules."""
    root = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(root) / "millstream"


def log_file() -> Path:
    return state_directory() / "millstream.log"


def quiet(*, debug: bool) -> None:
    """Keep warnings and log lines off the terminal: they go to the log file."""
    if not debug:
        warnings.filterwarnings("ignore")
    handlers: list[logging.Handler] = [logging.NullHandler()]
    try:
        state_directory().mkdir(parents=True, exist_ok=True)
        handlers.append(logging.FileHandler(log_file(), delay=True, encoding="utf-8"))
    except OSError:
        pass  # a home that cannot be written to must not keep anybody from working
    logging.basicConfig(
        level=logging.WARNING, handlers=handlers, format="%(asctime)s %(levelname)s %(name)s: %(message)s", force=True
    )
    logging.captureWarnings(True)
    if not debug:
        # What Python itself would print about threads and finalizers.
        threading.excepthook = lambda hook: _log_exception(hook.exc_value)
        sys.unraisablehook = lambda hook: _log_exception(hook.exc_value)


def _log_exception(error: BaseException | None) -> None:
    trace = "".join(traceback.format_exception(error)) if error is not None else "unknown"
    logging.getLogger("millstream.cli").warning("exception outside of a command\n%s", trace)
