"""Durable file operations and the errors of a disk that refuses them.

Owns: complete writes, syncing files and directories, replacing a small file atomically, and the
translation of `OSError` into `MillstreamError`.

Always: when a function here returns, what its name says has happened on the disk and not only in
memory. It must not know what the bytes mean.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from millstream.model.errors import MillstreamError

_FULL = frozenset({errno.ENOSPC, errno.EFBIG, errno.EDQUOT})

# fdatasync leaves out timestamps but not the file's size, which is all that an append needs. On macOS
# only F_FULLFSYNC makes the drive write its cache.
_datasync = getattr(os, "fdatasync", os.fsync)
_FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)


def open_for_append(path: Path) -> int:
    """A descriptor whose writes always go to the end, also after a truncation."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)


def write_all(descriptor: int, buffers: Sequence[Any]) -> None:
    """Write every byte of the buffers; a short write is continued, so a full disk shows as OSError."""
    views = [memoryview(buffer).cast("B") for buffer in buffers if len(buffer)]
    while views:
        written = os.writev(descriptor, views)
        while views and written >= len(views[0]):
            written -= len(views.pop(0))
        if written:
            views[0] = views[0][written:]


def sync_file(descriptor: int) -> None:
    if _FULL_SYNC is not None:
        fcntl.fcntl(descriptor, _FULL_SYNC)
    else:
        _datasync(descriptor)


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable: a synced file whose name is lost is lost."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_new_file(path: Path, buffers: Sequence[Any]) -> None:
    """Write and sync a file under a name that no reader looks at, removing it when that fails."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        write_all(descriptor, buffers)
        os.fsync(descriptor)
    except OSError:
        with contextlib.suppress(OSError):
            path.unlink()
        raise
    finally:
        os.close(descriptor)


def replace_file(path: Path, *buffers: Any) -> None:
    """Put new contents under a name: after a crash there are the old ones or the new, never a mix."""
    temporary = path.with_name(path.name + ".tmp")
    write_new_file(temporary, buffers)
    os.replace(temporary, path)
    sync_directory(path.parent)


def write_error(error: OSError, path: Path) -> MillstreamError:
    """What to tell a producer whose rows were refused by the disk."""
    detail = f"{path}: {error.strerror or error}"
    if error.errno in _FULL:
        return MillstreamError(
            "DISK_FULL",
            "the log has no room to write",
            detail=detail,
            hint="free space or shorten retention, then send the rows again; nothing acknowledged is lost",
        )
    return MillstreamError(
        "LOG_WRITE_FAILED",
        "the log could not write",
        detail=detail,
        hint="check the disk and its permissions, then send the rows again; nothing acknowledged is lost",
    )
