import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.log import Topic
from millstream.model.errors import MillstreamError
from millstream.plan.slices import CUT_LINE
from millstream.sources.socket import Lines, SocketSource
from tests.unit.sources.conftest import Begin
from tests.unit.sources.opening import opened

Listen = Callable[..., SocketSource]


@pytest.fixture
def listen(begin: Begin) -> Iterator[Listen]:
    with ExitStack() as held:

        def make(**options: Any) -> SocketSource:
            source, _ = opened(begin(), **{"source": "socket", "listen": "true", "port": "0", **options})
            assert isinstance(source, SocketSource)
            held.callback(source.close)
            return source

        yield make


def _landed(topic: Topic, count: int) -> list[bytes]:
    """The lines of a topic, once there are so many."""
    until = time.monotonic() + 60
    while topic.end_offsets()[0] < count:
        assert time.monotonic() < until, f"{topic.end_offsets()[0]} of {count} lines have landed"
        time.sleep(0.01)
    return [row["_raw"] for batch in topic.read(0, 0) for row in batch.to_pylist()]


def _send(source: SocketSource, data: bytes) -> None:
    with socket.create_connection(("127.0.0.1", source.port)) as client:
        client.sendall(data)


def test_a_connection_that_ended_leaves_nothing_behind(listen: Listen) -> None:
    source = listen()
    threads = threading.active_count()
    for number in range(200):
        _send(source, b"%d\n" % number)
    assert sorted(map(int, _landed(source.topic, 200))) == list(range(200))
    assert threading.active_count() <= threads


def test_a_line_that_is_too_long_is_cut_and_the_next_one_is_whole(listen: Listen) -> None:
    source = listen(max_line="10 kB")
    _send(source, b"a\n" + b"x" * 3_000_000 + b"\nb\n" + b"y" * 20_000)
    lines = _landed(source.topic, 4)
    assert lines == [b"a", b"x" * 1024 + CUT_LINE, b"b", b"y" * 1024 + CUT_LINE]


def test_clients_beyond_the_limit_wait(listen: Listen) -> None:
    source = listen(max_connections="2")
    with ExitStack() as held:
        clients = [held.enter_context(socket.create_connection(("127.0.0.1", source.port))) for _ in range(3)]
        for number, client in enumerate(clients):
            client.sendall(b"%d\n" % number)
        first = _landed(source.topic, 2)
        for client in clients:
            client.close()
        assert sorted([*first, b"2"]) == sorted(_landed(source.topic, 3))


def test_what_stands_after_the_last_newline_is_a_line(listen: Listen) -> None:
    source = listen()
    _send(source, b"\r\n  \na\r\nb")
    assert _landed(source.topic, 2) == [b"a", b"b"]


def test_close_ends_open_connections(begin: Begin) -> None:
    source, _ = opened(begin(), source="socket", listen="true", port="0")
    assert isinstance(source, SocketSource)
    with socket.create_connection(("127.0.0.1", source.port)) as client:
        client.sendall(b"a\n")
        _landed(source.topic, 1)
        source.close()
        client.settimeout(60)
        assert client.recv(1) == b""


def test_a_server_that_is_not_there_is_a_failure_until_it_is(begin: Begin) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    source, _ = opened(begin(), source="socket", port=str(port))
    assert isinstance(source, SocketSource)
    try:
        until = time.monotonic() + 60
        while source.failure is None and time.monotonic() < until:
            time.sleep(0.01)
        assert source.failure is not None
        assert source.failure.code == "SOCKET_UNAVAILABLE"
        with socket.create_server(("127.0.0.1", port)) as server:
            server.settimeout(60)
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"a\n")
            assert _landed(source.topic, 1) == [b"a"]
    finally:
        source.close()


def test_a_port_that_is_taken(begin: Begin) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.raises(MillstreamError) as caught:
        opened(begin(), source="socket", listen="true", port=str(server.getsockname()[1]))
    assert caught.value.code == "SOCKET_UNAVAILABLE"


def test_a_stream_that_exists_waits_for_its_port(begin: Begin) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        source, _ = opened(replace(begin(), is_known=True), source="socket", listen="true", port=str(port))
        assert isinstance(source, SocketSource)
        assert source.failure is not None
        assert source.failure.code == "SOCKET_UNAVAILABLE"
    try:
        until = time.monotonic() + 60
        while source.failure is not None and time.monotonic() < until:
            time.sleep(0.01)
        _send(source, b"a\n")
        assert _landed(source.topic, 1) == [b"a"]
    finally:
        source.close()


@given(st.lists(st.binary(max_size=12)), st.integers(1, 7), st.integers(1, 10))
def test_lines_do_not_depend_on_how_bytes_arrive(parts: list[bytes], step: int, longest: int) -> None:
    data = b"".join(parts)
    whole, pieces = Lines(longest), Lines(longest)
    expected = whole.feed(data) + whole.finish()
    found = [line for low in range(0, len(data), step) for line in pieces.feed(data[low : low + step])]
    assert found + pieces.finish() == expected
    assert all(line.endswith(CUT_LINE) or len(line) <= longest for line in expected)
