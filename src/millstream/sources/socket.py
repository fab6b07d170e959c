"""`source = 'socket'`: lines over TCP, landed in the log first.

Owns the connections, all of them in one thread, and the cut into lines. What always holds: lines are
read only as fast as the log takes them, and memory is bounded by the number of connections and the
longest line. TCP has no acknowledgement: what was read before a crash is in the log, what was only
sent may be lost.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
from collections.abc import Iterator

from pydantic import Field

from millstream.log import Topic
from millstream.model.errors import MillstreamError
from millstream.model.schema import Schema
from millstream.model.settings import Size
from millstream.model.time import Clock
from millstream.plan.slices import CUT_LINE
from millstream.sources.landing import RETRY_SECONDS, LandingSource
from millstream.sources.log import LogOptions, check_partition_keys, open_topic
from millstream.sources.protocol import Opening, Source

_READ_BYTES = 1 << 18
# Lines of several connections share an append up to here.
_LAND_BYTES = 1 << 22
_CUT_BYTES = 1 << 10
"""What a dead letter shows of a line that is too long."""
_CONNECT_SECONDS = 5


class SocketOptions(LogOptions):
    """`source = 'socket'`: lines over TCP, from a server we connect to or from clients we accept."""

    host: str = "127.0.0.1"
    port: int = Field(ge=0, le=65535)
    listen: bool = False
    max_line: Size = 1 << 20
    max_connections: int = Field(default=128, ge=1)


class Lines:
    """The lines of one connection. Holds at most one unfinished line, up to `longest` bytes of it."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._rest = bytearray()
        self._is_cut = False

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that some bytes finish; empty ones are left out."""
        *ends, rest = data.split(b"\n")
        found = []
        for end in ends:
            self._hold(end)
            found.extend(self.finish())
        self._hold(rest)
        return found

    def finish(self) -> list[bytes]:
        """The line that was held, if there is one."""
        line = bytes(self._rest.removesuffix(b"\r"))
        if self._is_cut:
            line += CUT_LINE
        self._rest.clear()
        self._is_cut = False
        return [line] if line.strip() else []

    def _hold(self, part: bytes) -> None:
        if self._is_cut:
            return
        self._rest += part
        if len(self._rest) > self._longest:
            self._is_cut = True
            del self._rest[min(_CUT_BYTES, self._longest) :]


class SocketSource(LandingSource):
    def __init__(
        self,
        topic: Topic,
        schema: Schema,
        options: SocketOptions,
        clock: Clock,
        instead_of: Source | None = None,
        *,
        is_known: bool = False,
    ) -> None:
        super().__init__(topic, schema, options, clock)
        self._socket_options = options
        self._server: socket.socket | None = None
        if options.listen and isinstance(instead_of, SocketSource) and instead_of.listens_as(options):
            # The port stays open: this socket goes on when the other source closes its own.
            self._server = instead_of.listening()
        elif options.listen:
            try:
                self._server = self._bound()
            except MillstreamError as error:
                if not is_known:
                    raise
                # Its rows in the log can be read meanwhile.
                self._failure = error
        self._waker, self._woken = socket.socketpair()

    def begin(self) -> None:
        self.serve("millstream-socket", self._listen if self._socket_options.listen else self._connect)

    def _bound(self) -> socket.socket:
        """A socket that listens."""
        options = self._socket_options
        try:
            server = socket.create_server((options.host, options.port))
        except OSError as error:
            raise MillstreamError(
                "SOCKET_UNAVAILABLE", f"cannot listen on {options.host}:{options.port}", detail=str(error)
            ) from None
        server.setblocking(False)
        return server

    def listens_as(self, options: SocketOptions) -> bool:
        own = self._socket_options
        return self._server is not None and (options.host, options.port) == (own.host, own.port)

    def listening(self) -> socket.socket:
        """The socket that listens, for a source that takes the place of this one."""
        assert self._server is not None
        return self._server.dup()

    @property
    def port(self) -> int:
        """The port in use, which the system chose if the option was 0."""
        return int(self._server.getsockname()[1]) if self._server else self._socket_options.port

    def _connect(self) -> None:
        """Read one connection to its end."""
        options = self._socket_options
        try:
            connection = socket.create_connection((options.host, options.port), timeout=_CONNECT_SECONDS)
        except OSError as error:
            raise MillstreamError(
                "SOCKET_UNAVAILABLE", f"cannot connect to {options.host}:{options.port}", detail=str(error)
            ) from None
        self.recovered()
        with self._selector() as selector:
            self._join(selector, connection)
            while len(selector.get_map()) > 1 and not self._stopping.is_set():
                self._read(selector)

    def _listen(self) -> None:
        """Accept and read connections; those beyond the limit wait until another one ends."""
        if self._server is None:
            self._server = self._bound()
            self.recovered()
        most = self._socket_options.max_connections
        with self._selector() as selector:
            while not self._stopping.is_set():
                accepting = self._server in selector.get_map()
                connections = len(selector.get_map()) - 1 - accepting
                if not accepting and connections < most:
                    selector.register(self._server, selectors.EVENT_READ, self._server)
                elif accepting and connections >= most:
                    selector.unregister(self._server)
                self._read(selector)

    @contextlib.contextmanager
    def _selector(self) -> Iterator[selectors.BaseSelector]:
        """A selector that `close` wakes; its connections are closed with it."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._woken, selectors.EVENT_READ)
            try:
                yield selector
            finally:
                for key in list(selector.get_map().values()):
                    if isinstance(key.data, Lines) and isinstance(key.fileobj, socket.socket):
                        key.fileobj.close()

    def _join(self, selector: selectors.BaseSelector, connection: socket.socket) -> None:
        connection.setblocking(False)
        selector.register(connection, selectors.EVENT_READ, Lines(self._socket_options.max_line))

    def _read(self, selector: selectors.BaseSelector) -> None:
        """Land what has come, of all connections together."""
        lines: list[bytes] = []
        size = 0
        for key, _ in selector.select():
            if key.data is self._server and self._server is not None:
                self._accept(selector, self._server)
            elif isinstance(key.data, Lines) and isinstance(key.fileobj, socket.socket):
                found = self._receive(selector, key.fileobj, key.data)
                lines += found
                size += sum(map(len, found))
                if size >= _LAND_BYTES:
                    self.land_lines(lines)
                    lines, size = [], 0
        if lines:
            self.land_lines(lines)

    def _accept(self, selector: selectors.BaseSelector, server: socket.socket) -> None:
        try:
            connection, _ = server.accept()
        except (BlockingIOError, ConnectionError):
            return
        except OSError as error:
            # Out of file descriptors, for example: those who knock wait, the others go on.
            self._failure = MillstreamError("SOCKET_UNAVAILABLE", "cannot accept a connection", detail=str(error))
            self._stopping.wait(RETRY_SECONDS)
            return
        self._join(selector, connection)

    def _receive(self, selector: selectors.BaseSelector, connection: socket.socket, lines: Lines) -> list[bytes]:
        """The next lines of a connection; an unfinished one at its end counts as a line."""
        try:
            data = connection.recv(_READ_BYTES)
        except BlockingIOError:
            return []
        except OSError:
            data = b""
        if data:
            return lines.feed(data)
        selector.unregister(connection)
        connection.close()
        return lines.finish()

    def close(self) -> None:
        self._stopping.set()
        self._waker.send(b"\0")
        super().close()
        for held in (self._server, self._waker, self._woken):
            if held is not None:
                held.close()


def open_socket(options: SocketOptions, opening: Opening) -> SocketSource:
    stream = opening.stream
    check_partition_keys(options, opening)
    topic = open_topic(options.topic_of(stream), opening)
    return SocketSource(topic, stream.schema, options, opening.clock, opening.instead_of, is_known=opening.is_known)
