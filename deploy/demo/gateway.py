"""Forward connections to a broker, and simulate failures of a load balancer or firewall."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from typing import Self

CHUNK_BYTES = 65_536
LOOK_SECONDS = 0.2


class Gateway:
    """Forwards connections from 127.0.0.1:`port` to 127.0.0.1:`target`.

    `source`: the address that the broker sees as the client's address.
    """

    def __init__(self, port: int, target: int, source: str = "127.0.0.1") -> None:
        self.port, self._target, self._source = port, target, source
        self._selector = selectors.DefaultSelector()
        self._lock = threading.Lock()
        self._pairs: dict[socket.socket, socket.socket] = {}
        self._listener: socket.socket | None = None
        self._swallows = False
        self._delay = 0.0
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def open(self) -> Self:
        """Forward all data without delay."""
        self._swallows, self._delay = False, 0.0
        with self._lock:
            if self._listener is None:
                self._listener = socket.create_server(("127.0.0.1", self.port))
                self._selector.register(self._listener, selectors.EVENT_READ)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=f"gateway {self.port}", daemon=True)
                self._thread.start()
        return self

    def shut(self) -> None:
        with self._lock:
            if self._listener is not None:
                self._selector.unregister(self._listener)
                self._listener.close()
                self._listener = None
            for one in list(self._pairs):
                self._drop(one)

    def swallow(self) -> None:
        """Accept connections, keep them open and forward nothing."""
        self._swallows = True

    def delay(self, seconds: float) -> None:
        """Delay all forwarded data by this time (s)."""
        self._delay = seconds

    def close(self) -> None:
        self._closed.set()
        self.shut()

    def _run(self) -> None:
        while not self._closed.is_set():
            if self._swallows or not self._selector.get_map():
                self._closed.wait(LOOK_SECONDS)
                continue
            for key, _ in self._selector.select(LOOK_SECONDS):
                with self._lock, contextlib.suppress(OSError, KeyError, ValueError):
                    self._serve(key.fileobj)

    def _serve(self, ready: object) -> None:
        if ready is self._listener and self._listener is not None:
            outer, _ = self._listener.accept()
            self._pair(outer, socket.create_connection(("127.0.0.1", self._target), 5, (self._source, 0)))
        elif isinstance(ready, socket.socket) and ready in self._pairs:
            data = ready.recv(CHUNK_BYTES)
            self._closed.wait(self._delay)
            if data:
                self._pairs[ready].sendall(data)
            else:
                self._drop(ready)

    def _pair(self, outer: socket.socket, inner: socket.socket) -> None:
        for one, other in ((outer, inner), (inner, outer)):
            self._pairs[one] = other
            self._selector.register(one, selectors.EVENT_READ)

    def _drop(self, one: socket.socket) -> None:
        other = self._pairs.pop(one, None)
        for end in (one, other):
            if end is not None:
                self._pairs.pop(end, None)
                with contextlib.suppress(KeyError, ValueError):
                    self._selector.unregister(end)
                end.close()
