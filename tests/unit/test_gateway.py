"""The demo's gateway forwards data, delays or swallows data, and refuses connections."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from deploy.demo.gateway import Gateway
from deploy.demo.processes import free_port


def echo(server: socket.socket) -> None:
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        threading.Thread(target=answer, args=(connection,), daemon=True).start()


def answer(connection: socket.socket) -> None:
    with connection:
        while data := connection.recv(1000):
            connection.sendall(data)


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=echo, args=(server,), daemon=True).start()
        opened = Gateway(free_port(), server.getsockname()[1]).open()
        yield opened
        opened.close()


def logged(connection: socket.socket, word: bytes) -> bytes:
    connection.settimeout(60.0)
    connection.sendall(word)
    return connection.recv(1000)


def seconds_to_say(connection: socket.socket, word: bytes) -> float:
    began = time.monotonic()
    assert logged(connection, word) == word
    return time.monotonic() - began


def test_it_passes_both_ways_for_several(gateway: Gateway) -> None:
    with (
        socket.create_connection(("127.0.0.1", gateway.port)) as one,
        socket.create_connection(("127.0.0.1", gateway.port)) as other,
    ):
        assert logged(one, b"a") == b"a"
        assert logged(other, b"b") == b"b"
        assert logged(one, b"c") == b"c"


def test_shut_it_drops_and_refuses_and_opens_again(gateway: Gateway) -> None:
    with socket.create_connection(("127.0.0.1", gateway.port)) as one:
        assert logged(one, b"a") == b"a"
        gateway.shut()
        one.settimeout(60.0)
        assert one.recv(1000) == b""
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", gateway.port))
    gateway.open()
    with socket.create_connection(("127.0.0.1", gateway.port)) as one:
        assert logged(one, b"a") == b"a"


def test_it_swallows_until_it_is_opened(gateway: Gateway) -> None:
    with socket.create_connection(("127.0.0.1", gateway.port)) as one:
        assert logged(one, b"a") == b"a"
        gateway.swallow()
        time.sleep(0.5)
        one.settimeout(0.5)
        one.sendall(b"b")
        with pytest.raises(TimeoutError):
            one.recv(1000)
        gateway.open()
        one.settimeout(60.0)
        assert one.recv(1000) == b"b"


def test_it_holds_up_what_passes_both_ways(gateway: Gateway) -> None:
    with socket.create_connection(("127.0.0.1", gateway.port)) as one:
        assert logged(one, b"a") == b"a"
        gateway.delay(0.3)
        assert seconds_to_say(one, b"b") >= 0.6
        gateway.open()
        assert min(seconds_to_say(one, b"c") for _ in range(5)) < 0.6
