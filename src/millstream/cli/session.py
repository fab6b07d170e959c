"""Opening a data directory for a command.

Owns what is said while Spark starts, and the refusal to read a directory that is not there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from millstream.api import Connection
from millstream.cli.console import ERR
from millstream.engine.surface.connect import connect
from millstream.model.errors import MillstreamError
from millstream.model.settings import EngineSettings


def has_data(data: Path) -> bool:
    return (data / "store.duckdb").exists()


@contextmanager
def opened(data: Path, *, must_exist: bool = False, eager: bool = True) -> Iterator[Connection]:
    """A database that is closed afterwards. With `eager`, Spark begins to start at once."""
    if must_exist and not has_data(data):
        raise MillstreamError(
            "NO_DATA_DIR",
            f"there is no Millstream data in {data}",
            hint="name the directory with --data, or create something there first with 'millstream sql'",
        )
    if data.exists() and not data.is_dir():
        raise MillstreamError("NO_DATA_DIR", f"{data} is not a directory", hint="name a directory with --data")
    with connect(data, settings=EngineSettings(eager_spark=eager)) as db:
        yield db


def wait_for_spark(db: Connection) -> None:
    """Spark starts in the background: show that something goes on until it is there."""
    if not ERR.is_terminal:
        db.warm_up()
        return
    with ERR.status("starting Spark…", spinner="dots"):
        db.warm_up()


def read_text(path: Path) -> str:
    """The text of a script."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise MillstreamError("FILE_NOT_READABLE", f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise MillstreamError("FILE_NOT_READABLE", f"cannot read {path}: it is not UTF-8 text") from None
