"""Spark itself: one session per process, quiet, tuned for small epochs.

Owns starting the JVM and its settings. What always holds: UTC, ANSI mode, no line of Spark or the
JVM on the user's terminal (they go to a file in the data directory of whoever started it).
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from py4j.clientserver import SHUTDOWN_FINALIZER_WORKER
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from millstream.kernel.evaluation import warm_up
from millstream.model.errors import MillstreamError
from millstream.model.settings import SparkSettings
from millstream.spark.arrow import collect
from millstream.spark.errors import GONE

_LOCAL_CONF = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
# What results depend on: not the user's to change.
_MEANING = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    # A field of the wrong type makes the whole of `from_json` NULL, not the field.
    "spark.sql.json.enablePartialResults": "false",
}
# What a session can be told while Spark runs.
_SESSION_CONF = {
    # Small jobs: planning adaptively and shuffling widely cost more than they save.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}
# What decides the number of tasks: of shuffles, of generated rows, of files.
_PARALLELISM = (
    "spark.sql.shuffle.partitions",
    "spark.sql.leafNodeDefaultParallelism",
    "spark.sql.files.maxPartitionNum",
)
_CONF = {
    "spark.app.name": "millstream",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "WARN",
    "spark.sql.catalogImplementation": "in-memory",
    # Hadoop's default local file system forks chmod and stat for every file.
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.cleaner.periodicGC.interval": "10min",
    # Epochs are many and short-lived: keep little of their history.
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "200",
    "spark.sql.ui.retainedExecutions": "5",
    "spark.python.worker.reuse": "true",
    "spark.python.daemon.module": "millstream.spark.daemon",
    # Over TCP each exchange with a Python worker waits some 40 ms for an acknowledgement that the kernel delays.
    "spark.python.unix.domain.socket.enabled": "true",
}

# The JVM compiles for speed what has run ten times as often as it would by itself. Scheduling small jobs is never worth
# it, and in the first minutes its compiler took more time of the cores than all else that the JVM does; what Spark does
# with every row gets there all the same, at once.
_JIT = " ".join(
    f"-XX:Tier4{threshold}"
    for threshold in (
        "InvocationThreshold=50000",
        "MinInvocationThreshold=6000",
        "CompileThreshold=150000",
        "BackEdgeThreshold=400000",
    )
)

_LOG4J = """
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {path}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{yyyy-MM-dd HH:mm:ss.SSS}} %p %c{{1}}: %m%n%ex
"""


def check_java() -> None:
    """Refuse early, in one sentence, what Spark would refuse late, in many."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    version = None
    if java and Path(java).exists():
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
        found = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
        version = int(found.group(1)) if found else None
    if version is None or version < 17:
        raise MillstreamError(
            "JAVA_NOT_FOUND" if version is None else "JAVA_TOO_OLD",
            f"Millstream needs Java 17 or newer (found: {version or 'none'})",
            hint="install a JDK, for example with 'apt-get install openjdk-17-jre-headless', and set JAVA_HOME or PATH",
        )


class _Runtime:
    """The process's one session and who starts it: again, if it is gone."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.future: Future[SparkSession] | None = None

    def start(self, settings: SparkSettings, log_dir: Path) -> Future[SparkSession]:
        with self.lock:
            if self.future is None or not is_up(self.future):
                _forget()
                pool = ThreadPoolExecutor(1, thread_name_prefix="millstream-spark-start")
                self.future = pool.submit(_launch, settings, log_dir)
                pool.shutdown(wait=False)
            return self.future


_RUNTIME = _Runtime()


def is_up(starting: Future[SparkSession]) -> bool:
    """Whether a Spark still runs, or is on its way. Asks nothing of the JVM."""
    if not starting.done():
        return True
    if starting.exception() is not None:
        return False
    context = starting.result().sparkContext
    return SparkContext._active_spark_context is context and _answers(context)


def _answers(context: SparkContext) -> bool:
    """Whether the JVM of a context runs and the context was not stopped."""
    return getattr(context, "_jsc", None) is not None and context not in GONE and _runs(context._gateway)


def _runs(gateway: Any) -> bool:
    """Whether a JVM runs, as far as is known: one that others started has no process to look at."""
    process = getattr(gateway, "proc", None)
    return process is None or process.poll() is None


def _forget() -> None:
    """Make PySpark forget a Spark that is gone: it keeps the one of the process for good."""
    context = SparkContext._active_spark_context
    gateway: Any = SparkContext._gateway
    if _runs(gateway) and (context is None or _answers(context)):
        return
    # Not `stop`, which asks the JVM. Whoever still uses the old context learns that nobody answers.
    server: Any = getattr(context, "_accumulatorServer", None)
    with suppress(Exception):
        server.shutdown()
    with suppress(Exception):
        gateway.shutdown_callback_server()
    with suppress(Exception):
        gateway._gateway_client.finalizer_deque.appendleft(SHUTDOWN_FINALIZER_WORKER)
    with suppress(Exception):
        # A JVM that we started, if it lives in spite of all, ends with its standard input.
        gateway.proc.stdin.close()
    SparkContext._active_spark_context = SparkContext._gateway = SparkContext._jvm = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None


def start_spark(settings: SparkSettings, log_dir: Path) -> Future[SparkSession]:
    """Begin to start Spark, or join what runs; settings count only for whoever starts it."""
    _hush()
    if _RUNTIME.future is None:
        active = SparkSession.getActiveSession()
        if active is not None:
            # A program that has Spark already shares it.
            _RUNTIME.future = Future()
            _RUNTIME.future.set_result(active)
        else:
            check_java()
    return _RUNTIME.start(settings, log_dir)


def new_session(running: SparkSession, settings: SparkSettings, *, parallelism: int | None = None) -> SparkSession:
    """A session of one database: temporary views and settings of its own, on the same Spark.

    With `parallelism`, its jobs have at most so many tasks at a time.
    """
    session = running.newSession()
    partitions = max(1, running.sparkContext.defaultParallelism)
    conf = {**_SESSION_CONF, "spark.sql.shuffle.partitions": str(partitions), **settings.conf, **_MEANING}
    if parallelism is not None:
        conf |= dict.fromkeys(_PARALLELISM, str(parallelism))
    for key, value in conf.items():
        if key.startswith("spark.sql.") and session.conf.isModifiable(key):
            session.conf.set(key, value)
    return session


def _hush() -> None:
    """PySpark writes the context of every failed query to the terminal, and Py4J that a JVM is gone."""
    root = logging.getLogger()
    root.removeFilter(_is_ours)
    root.addFilter(_is_ours)
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)
    logging.getLogger("DataFrameQueryContextLogger").setLevel(logging.CRITICAL + 1)


def _is_ours(record: logging.LogRecord) -> bool:
    """Py4J logs what it raises as well, and not under a name of its own."""
    return record.module not in ("java_gateway", "clientserver")


def _launch(settings: SparkSettings, log_dir: Path) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if settings.master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    log_dir.mkdir(parents=True, exist_ok=True)
    log4j = log_dir / "log4j2.properties"
    log4j.write_text(_LOG4J.format(path=log_dir / "spark.log"))
    conf = SparkConf(loadDefaults=True)
    local = _LOCAL_CONF if settings.master.startswith("local") else {}
    for key, value in {**_CONF, **local}.items():
        conf.set(key, value)
    conf.set("spark.master", settings.master)
    conf.set("spark.driver.memory", settings.driver_memory)
    conf.set("spark.sql.warehouse.dir", str(log_dir / "warehouse"))
    conf.set(
        "spark.driver.extraJavaOptions",
        f'"-Dlog4j2.configurationFile={log4j.as_uri()}" -XX:+UseParallelGC -Xss4m '
        f"-XX:+IgnoreUnrecognizedVMOptions {_JIT}",
    )
    for key, value in settings.conf.items():
        conf.set(key, value)
    gateway = SparkContext._gateway
    if gateway is None:
        with (log_dir / "jvm.log").open("ab") as out:
            launch: Callable[..., Any] = launch_gateway
            gateway = launch(conf, popen_kwargs={"stdout": out, "stderr": out})
    context = SparkContext(gateway=gateway, conf=conf)
    # It would print a traceback when the JVM is gone.
    server: Any = context._accumulatorServer
    server.handle_error = lambda *_: None
    # Nobody but an epoch waits for the Python workers.
    threading.Thread(target=_start_workers, args=(context,), name="millstream-workers", daemon=True).start()
    session = SparkSession(context)
    # Load what the first epoch would otherwise wait for.
    collect(session.sql("SELECT id % 2 AS k, count(*) AS n, max(id) AS m FROM range(10) GROUP BY 1"))
    return session


def _start_workers(context: SparkContext) -> None:
    """Start a worker for each core, so that the first epoch finds them; if not now, it will."""
    with suppress(Exception):
        cores = context.defaultParallelism
        context.parallelize(range(cores), cores).foreachPartition(warm_up)
