"""Spark's errors in our words: the condition and the first sentence, never a stack trace."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PySparkException, PythonException
from pyspark.errors.exceptions.captured import CapturedException, convert_exception

from millstream.model.errors import LostPartError, MillstreamError

# What the JVM meets, by class, when a Python worker is gone in the middle of a task.
_WORKER_LOST = frozenset(
    {
        "java.io.EOFException",
        "java.io.IOException",
        "java.net.ConnectException",
        "java.net.SocketException",
        "java.nio.channels.AsynchronousCloseException",
        "java.nio.channels.ClosedChannelException",
    }
)


_PLAIN = "org.apache.spark.SparkException"
_FILE = "FAILED_READ_FILE"
_ADD_PACKAGE = "name its package in spark.jars.packages of SparkSettings(conf=…), and connect again"
_HINTS = {"DATA_SOURCE_NOT_FOUND": _ADD_PACKAGE, "KAFKA_DATA_SOURCE_NOT_ENABLED": _ADD_PACKAGE}

GONE: WeakSet[SparkContext] = WeakSet()
"""Contexts that were found not to answer, or stopped."""


@contextmanager
def reported(code: str = "SPARK_FAILED") -> Iterator[None]:
    """Whatever Spark raises inside comes out as a `MillstreamError`: a `LostPartError` if a process of it is gone."""
    try:
        try:
            yield
        except PySparkException as error:
            raise _lost_part(error) or spark_error(error, code) from None
        except Py4JJavaError as error:
            known = known_exception(error)
            raise _lost_part(known) or spark_error(known, code) from None
    except (Py4JError, ConnectionError, EOFError) as error:
        # Not an answer of the JVM: those are Py4JJavaErrors.
        _is_gone()
        raise LostPartError("PART_LOST", "Spark is gone", detail=f"{type(error).__name__}: {error}"[:200]) from None


def _lost_part(error: PySparkException) -> LostPartError | None:
    """The failure of a job in which a part of Spark went away; None if it failed otherwise."""
    if _is_gone():
        return LostPartError("PART_LOST", "Spark was stopped")
    origin = error._origin if isinstance(error, CapturedException) else None
    chain: list[Any] = [origin] if origin is not None else []
    while chain and (cause := chain[-1].getCause()) is not None and len(chain) < 20:
        chain.append(cause)
    names = [java.getClass().getName() for java in chain]
    if any(name == _PLAIN and _is_of_file(java) for name, java in zip(names, chain, strict=True)):
        return None
    # Where Spark cannot start a worker it says so without a condition; what is wrong with data always has one.
    is_nameless = bool(chain) and names[-1] == _PLAIN and chain[-1].getCondition() is None
    if is_nameless or not _WORKER_LOST.isdisjoint(names):
        return LostPartError("PART_LOST", "a Python worker of Spark is gone")
    return None


def _is_of_file(error: Any) -> bool:
    """Whether Spark says that it cannot read a file, whatever it met there."""
    return str(error.getCondition() or "").startswith(_FILE)


def _is_gone() -> bool:
    """Whether the Spark of this process is gone, which is noted: a JVM that others started has no process to watch."""
    context: Any = SparkContext._active_spark_context
    if context is None:
        return True
    try:
        gone = bool(context._jsc.sc().isStopped())
    except (Py4JError, ConnectionError, AttributeError):
        gone = True
    if gone:
        GONE.add(context)
    return gone


def spark_error(error: PySparkException, code: str = "SPARK_FAILED") -> MillstreamError:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    first = lines[0] if lines else type(error).__name__
    if isinstance(error, PythonException):
        # A traceback from a worker: what was raised is on the last line that is not indented.
        raised = [line for line in str(error).splitlines() if re.match(r"[A-Za-z_][\w.]*: ", line)]
        first = raised[-1] if raised else first
    first = re.sub(r"^(?:[\w$]+\.)+[\w$]+: ", "", first)
    # What follows the first sentence is advice on settings that are not the user's to change.
    first = re.split(r"\. (?=[A-Z])|SQLSTATE", first)[0].strip().rstrip(".;")
    condition = error.getCondition() if hasattr(error, "getCondition") else None
    detail = f"Spark condition {condition}" if condition else None
    return MillstreamError(code, first[:500], detail=detail, hint=_HINTS.get(condition or ""))


def known_exception(error: Py4JJavaError) -> PySparkException:
    """A failure that PySpark passes on as it came from the JVM, as the error Spark itself names in it."""
    chain = [error.java_exception]
    while (cause := chain[-1].getCause()) is not None and len(chain) < 20:
        chain.append(cause)
    named = [java for java in chain if str(java.getMessage() or "").startswith("[")]
    converted: PySparkException = convert_exception(named[0] if named else chain[-1])
    return converted
