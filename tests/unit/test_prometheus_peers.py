"""The web server survives peers that send garbage, read slowly, or come in crowds."""

from __future__ import annotations

import gzip
import itertools
import json
import random
import re
import socket
import string
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from clienthealth.platform import web
from clienthealth.platform.web import Answer, Request, Response, Server
from clienthealth.settings import PrometheusSettings, Settings
from clienthealth_exporters.prometheus.exporter import PROBES, Exporter
from clienthealth_exporters.prometheus.states import States
from tests.support.health_records import NOW_MS, healthy, key, record, wire
from tests.support.rows import long_after
from tests.support.waiting import WAIT_SECONDS, eventually

LINES = "".join(f'metric{{client="{number}"}} {number}\n' for number in range(200_000)).encode()


@contextmanager
def serving(answer: Answer) -> Iterator[Server]:
    with Server(PrometheusSettings(port=0), answer, PROBES) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield server
        server.shutdown()


def answer(request: Request) -> Response:
    if request.path == "/metrics":
        blocks = (LINES[start : start + 100_000] for start in range(0, len(LINES), 100_000))
        return Response(itertools.chain(blocks, [b"last 1\n"]), "text/plain")
    if request.path == "/stream":
        return Response((b"x" * 1_000 for _ in range(100)), "text/plain")
    return Response(f"you asked for {request.path}", "text/plain")


def connected(server: Server) -> socket.socket:
    host, port = server.server_address[:2]
    return socket.create_connection((str(host), port), timeout=60)


def received(connection: socket.socket) -> bytes:
    data = b""
    try:
        while piece := connection.recv(65_536):
            data += piece
    except ConnectionResetError:
        pass
    return data


def exchange(server: Server, request: bytes) -> bytes:
    with connected(server) as connection:
        connection.sendall(request)
        with suppress(OSError):
            connection.shutdown(socket.SHUT_WR)
        return received(connection)


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET\r\n\r\n", 400),
        (b"GET /\r\n\r\n", 400),
        (b"GET / HTTP/x.y\r\n\r\n", 400),
        (b"GET / SPDY/1\r\n\r\n", 400),
        (b"GET / extra words HTTP/1.1\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (b"GET http://[::1 HTTP/1.1\r\n\r\n", 400),
        (b"GET http://[bad]/ HTTP/1.1\r\n\r\n", 400),
        (b"GET /?" + b"a&" * 200 + b" HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/2.0\r\n\r\n", 505),
        (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n", 414),
        (b"GET / HTTP/1.1\r\n" + b"X: " + b"a" * 40_000 + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\n" + b"".join(b"X%d: %b\r\n" % (n, b"a" * 500) for n in range(90)) + b"\r\n", 431),
        (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 150 + b"\r\n", 431),
        (b"POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", 501),
        (b"GET /nothing HTTP/1.1\r\nConnection: close\r\n\r\n", 200),
        (b"GET /nothing HTTP/1.0\r\n\r\n", 200),
    ],
    ids=lambda value: str(value)[:40],
)
def test_malformed_requests_are_refused_in_a_word(
    request_: bytes, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(answer) as server:
        response = exchange(server, request_)
        assert re.match(rb"HTTP/1\.1 %d " % status, response), response[:200]
        assert b"Traceback" not in response and b"Content-Security-Policy" in response
        assert exchange(server, b"GET /again HTTP/1.0\r\n\r\n").endswith(b"you asked for /again")
    assert caplog.text == ""


def test_what_follows_a_request_as_its_body_is_no_request() -> None:
    smuggled = b"GET /a HTTP/1.1\r\nContent-Length: 30\r\n\r\nGET /b HTTP/1.1\r\nHost: x\r\n\r\n"
    with serving(answer) as server:
        assert exchange(server, smuggled).count(b"HTTP/1.1 200") == 1


def test_no_bytes_at_random_break_it(caplog: pytest.LogCaptureFixture) -> None:
    random_ = random.Random(4)
    with serving(answer) as server:
        for _ in range(60):
            garbage = bytes(random_.choices(b"GET /?&=%\r\n :HTTP1.0[]\x00\xff" + string.ascii_letters.encode(), k=60))
            assert exchange(server, garbage + b"\r\n\r\n")[:12] not in (b"HTTP/1.1 500",)
        assert exchange(server, b"GET /again HTTP/1.0\r\n\r\n").endswith(b"you asked for /again")
    assert caplog.text == ""


def test_slow_readers_hold_one_block_each_and_others_must_retry() -> None:
    with ExitStack() as stack:
        server = stack.enter_context(serving(answer))
        before = memory()
        for _ in range(web.MAX_ANSWERS):
            slow = stack.enter_context(connected(server))
            slow.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
            assert slow.recv(12) == b"HTTP/1.1 200"
        late = exchange(server, b"GET /metrics HTTP/1.1\r\n\r\n")
        assert late.startswith(b"HTTP/1.1 503 ") and b"Retry-After: 5\r\n" in late
        assert exchange(server, b"GET /livez HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 200"), (
            "probes are always answered"
        )
        # A copy of the 5 MB page for each of 32 readers would take 160 MB.
        assert memory() - before < 40e6
        assert server.places._value == 0
        for connection in list(server._deadlines):
            server.allow(connection, -1.0, waiting=False)
        eventually(lambda: server.places._value == web.MAX_ANSWERS)
        assert exchange(server, b"GET /metrics HTTP/1.0\r\n\r\n").endswith(b"last 1\n")


def memory() -> int:
    match = re.search(r"VmRSS:\s+(\d+) kB", Path("/proc/self/status").read_text())
    if match is None:
        pytest.skip("this system does not say how much memory a process has")
    return int(match[1]) * 1024


def test_an_unread_answer_has_a_place_until_the_peer_is_cut_off_after_one_timeout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(web._Handler, "timeout", 4.0)
    asked: list[Request] = []

    def small(request: Request) -> Response:
        asked.append(request)
        return Response("x" * 60_000, "text/plain")

    def stuck() -> bool:
        before = len(asked)
        time.sleep(0.5)
        return before == len(asked) > 0

    with serving(small) as server, socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        connection.connect(server.server_address[:2])
        connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 200)
        eventually(stuck)
        assert server.places._value == web.MAX_ANSWERS - 1
        since = time.monotonic()
        eventually(lambda: not server._deadlines)
        assert time.monotonic() - since < 8


def test_a_request_that_dribbles_in_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "REQUEST_SECONDS", 0.5)
    with serving(answer) as server, connected(server) as connection:
        began, cut = time.monotonic(), False
        while not cut and time.monotonic() - began < WAIT_SECONDS:
            try:
                connection.sendall(b"G")
                connection.settimeout(0.05)
                cut = connection.recv(1) == b""
            except TimeoutError:
                continue
            except OSError:
                cut = True
        assert cut


@pytest.mark.parametrize("begun", long_after(1, [b"GET /metr", b""]), ids=["half a request", "silent"])
def test_of_a_crowd_that_only_waits_the_first_make_room_for_probes_and_scrapes(
    begun: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web, "REQUEST_SECONDS", 600.0)
    monkeypatch.setattr(web._Handler, "timeout", 600.0)
    with ExitStack() as stack:
        server = stack.enter_context(serving(answer))
        crowd = []
        for _ in range(200):
            crowd.append(stack.enter_context(connected(server)))
            crowd[-1].sendall(begun)
        for path in (b"/livez", b"/metrics") * 20:
            assert exchange(server, b"GET %b HTTP/1.0\r\n\r\n" % path).startswith(b"HTTP/1.1 200 ")
        eventually(lambda: len(server._deadlines) <= web.MAX_CONNECTIONS)
        assert received(crowd[0]) == b"", "the first peer has waited longest"
        crowd[-1].sendall(b"GET /metrics HTTP/1.0\r\n\r\n".removeprefix(begun))
        assert received(crowd[-1]).startswith(b"HTTP/1.1 200 "), "the last peer still has time"


def test_if_all_places_are_taken_one_more_must_retry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "MAX_CONNECTIONS", 4)
    with ExitStack() as stack:
        server = stack.enter_context(serving(answer))
        for _ in range(4):
            slow = stack.enter_context(connected(server))
            slow.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
            assert slow.recv(12) == b"HTTP/1.1 200"
        with connected(server) as one_more:
            assert received(one_more).startswith(b"HTTP/1.1 503 ")


@pytest.mark.parametrize("encoding", ["identity", "gzip", "gzip;q=0", "br, gzip;q=0.5"])
def test_every_body_is_the_same_packed_or_not(encoding: str) -> None:
    packed = encoding in ("gzip", "br, gzip;q=0.5")
    with serving(answer) as server:
        for path, wanted in (("/metrics", LINES + b"last 1\n"), ("/stream", b"x" * 100_000)):
            for version in (b"1.0", b"1.1"):
                request = (
                    f"GET {path} HTTP/{version.decode()}\r\nAccept-Encoding: {encoding}\r\nConnection: close\r\n\r\n"
                )
                head, _, body = exchange(server, request.encode()).partition(b"\r\n\r\n")
                if b"Transfer-Encoding: chunked" in head:
                    body = unchunked(body)
                assert (b"Content-Encoding: gzip" in head) == packed
                assert (gzip.decompress(body) if packed else body) == wanted
                if packed:
                    one = zlib.decompressobj(zlib.MAX_WBITS | 16)
                    assert one.decompress(body) == wanted and one.eof and not one.unused_data, "one stream, not two"


def unchunked(body: bytes) -> bytes:
    data = b""
    while body:
        size, _, body = body.partition(b"\r\n")
        data, body = data + body[: int(size, 16)], body[int(size, 16) + 2 :]
    return data


def test_head_of_a_stream_has_no_body() -> None:
    with serving(answer) as server:
        assert exchange(server, b"HEAD /stream HTTP/1.1\r\nConnection: close\r\n\r\n").endswith(b"\r\n\r\n")


def test_the_list_of_clients_is_json_whatever_numbers_a_record_has() -> None:
    states = States(Settings(), clock=lambda: NOW_MS / 1000)
    states.put(*wire(record(indicators={"io_thread_busy_ratio": float("nan")})))
    states.put(*wire(healthy()))
    body = Exporter(Settings(), states, lambda: None)(Request("/clients.json", {})).body
    assert not isinstance(body, str)
    clients = json.loads(b"".join(body), parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert [one["client"]["client_id"] for one in clients] == ["invoices", "order-producer"]


def test_a_client_is_found_by_its_names_whatever_its_key_is() -> None:
    odd = record(service="a|b", instance="c", client_id="d")
    states = States(Settings(), clock=lambda: NOW_MS / 1000)
    states.put(key("a\\|b", "c", "d"), wire(odd)[1], NOW_MS)
    asked = Request("/client", {"service": "a|b", "instance": "c", "client_id": "d"})
    assert Exporter(Settings(), states, lambda: None)(asked).status == 200


def test_before_the_topic_is_read_a_scrape_fails() -> None:
    """A page without clients would mean that all clients are gone."""
    trouble: list[str | None] = ["reading client-health: 9 records are left", None, "Kafka at x is lost"]
    exporter = Exporter(Settings(), States(Settings()), lambda: trouble[0])
    statuses = []
    while trouble:
        statuses.append(exporter(Request("/metrics", {})).status)
        trouble.pop(0)
    assert statuses == [503, 200, 200]


def test_a_reader_that_is_stuck_is_not_alive() -> None:
    idle = [0.0]
    exporter = Exporter(Settings(), States(Settings()), lambda: "Kafka at x is lost", idle=lambda: idle[0])
    assert exporter(Request("/livez", {})).status == 200, "a restart would not bring Kafka back"
    idle[0] = 121.0
    assert exporter(Request("/livez", {})).status == 503
