"""`source = 'socket'`: lines over TCP, landed in the log first.

A line is acknowledged to nobody, TCP has no such word, but it is read from the socket only as fast
as the log takes it, and what was read before a crash is in the log.
"""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time

import pyarrow as pa
from pydantic import Field

from millstream.log import Topic
from millstream.model.errors import MillstreamError
from millstream.model.schema import Schema
from millstream.model.time import Clock
from millstream.sources.log import LogOptions, LogSource, check_partition_keys, open_topic
from millstream.sources.protocol import Cut, Offsets, Opening, Place, Source
from millstream.sources.starts import Start

_READ_BYTES = 1 << 18
_RETRY_SECONDS = 0.5


class SocketOptions(LogOptions):
    """`source = 'socket'`: lines over TCP, from a server we connect to or from clients we accept."""

    host: str = "127.0.0.1"
    port: int = Field(ge=0, le=65535)
    listen: bool = False


class SocketSource(Source):
    """A log source that is fed by a thread."""

    def __init__(self, topic: Topic, schema: Schema, options: SocketOptions, clock: Clock) -> None:
        self._topic = topic
        self._options = options
        self._log = LogSource(topic, schema, options, clock)
        self._stopping = threading.Event()
        self._server: socket.socket | None = None
        self._failure: MillstreamError | None = None
        if options.listen:
            try:
                self._server = socket.create_server((options.host, options.port))
            except OSError as error:
                raise MillstreamError(
                    "SOCKET_UNAVAILABLE", f"cannot listen on {options.host}:{options.port}", detail=str(error)
                ) from None
        self._threads = [threading.Thread(target=self._run, name="millstream-socket", daemon=True)]
        self._threads[0].start()

    @property
    def port(self) -> int:
        """The port in use, which the system chose if the option was 0."""
        return int(self._server.getsockname()[1]) if self._server else self._options.port

    @property
    def failure(self) -> MillstreamError | None:
        return self._failure

    @property
    def partitions(self) -> int:
        return self._log.partitions

    def start(self) -> Offsets:
        return self._log.start()

    def place(self, start: Start) -> Place:
        return self._log.place(start)

    def end(self) -> Offsets:
        return self._log.end()

    def waiting(self, offsets: Offsets) -> int:
        return self._log.waiting(offsets)

    def cut(self, offsets: Offsets, limit: int, until: Offsets | None = None) -> Cut | None:
        return self._log.cut(offsets, limit, until)

    def _run(self) -> None:
        while not self._stopping.is_set():
            if self._server is not None:
                ready, _, _ = select.select([self._server], [], [], 0.2)
                if ready:
                    connection, _ = self._server.accept()
                    reader = threading.Thread(target=self._read, args=(connection,), daemon=True)
                    self._threads.append(reader)
                    reader.start()
                continue
            try:
                connection = socket.create_connection((self._options.host, self._options.port), timeout=5)
            except OSError:
                self._stopping.wait(_RETRY_SECONDS)
                continue
            self._read(connection)
            self._stopping.wait(_RETRY_SECONDS)

    def _read(self, connection: socket.socket) -> None:
        """Land complete lines; an unfinished one at the end of the connection counts as a line."""
        rest = b""
        with connection, contextlib.suppress(ConnectionError):
            connection.settimeout(0.2)
            while not self._stopping.is_set():
                try:
                    data = connection.recv(_READ_BYTES)
                except TimeoutError:
                    continue
                if not data:
                    break
                *lines, rest = (rest + data).split(b"\n")
                self._land(lines)
        self._land([rest])

    def _land(self, lines: list[bytes]) -> None:
        lines = [line.rstrip(b"\r") for line in lines if line.strip()]
        while lines and not self._stopping.is_set():
            try:
                self._topic.append(pa.table({"_raw": pa.array(lines, pa.binary())}))
                self._failure = None
                return
            except MillstreamError as error:
                # A full disk holds the sender back until there is room again.
                self._failure = error
                time.sleep(_RETRY_SECONDS)

    def close(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(timeout=5)
        if self._server is not None:
            self._server.close()


def open_socket(options: SocketOptions, opening: Opening) -> SocketSource:
    stream = opening.stream
    check_partition_keys(options, opening)
    return SocketSource(open_topic(options.topic_of(stream), opening), stream.schema, options, opening.clock)
