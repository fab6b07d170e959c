"""Spark's errors in our words: the condition and the first sentence, never a stack trace."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException, PythonException
from pyspark.errors.exceptions.captured import convert_exception

from millstream.model.errors import MillstreamError


@contextmanager
def reported(code: str = "SPARK_FAILED") -> Iterator[None]:
    """Whatever Spark raises inside comes out as a `MillstreamError`."""
    try:
        yield
    except PySparkException as error:
        raise spark_error(error, code) from None
    except Py4JJavaError as error:
        raise spark_error(known_exception(error), code) from None


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
    return MillstreamError(code, first[:500], detail=f"Spark condition {condition}" if condition else None)


def known_exception(error: Py4JJavaError) -> PySparkException:
    """A failure that PySpark passes on as it came from the JVM, as the error Spark itself names in it."""
    chain = [error.java_exception]
    while (cause := chain[-1].getCause()) is not None and len(chain) < 20:
        chain.append(cause)
    named = [java for java in chain if str(java.getMessage() or "").startswith("[")]
    converted: PySparkException = convert_exception(named[0] if named else chain[-1])
    return converted
