"""The webhook sends incidents as signed CloudEvents, and never delays the exporter."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from clienthealth.settings import Settings
from clienthealth_exporters.prometheus.states import States
from clienthealth_exporters.prometheus.webhook import MAX_WAITING, Webhook
from tests.support.health_records import NOW_MS, deadlock, record, verdict, wire
from tests.support.waiting import eventually

SECRET = b"a secret of more than a few characters"
KEY = "orders-api|web-7:31337|order-producer"
NO_HTTP = 0


class Receiver:
    def __init__(self, *codes: int) -> None:
        self.codes = list(codes or (204,))
        self.got: list[tuple[dict[str, str], bytes]] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.got.append(({name.lower(): value for name, value in self.headers.items()}, body))
                code = receiver.codes.pop(0) if len(receiver.codes) > 1 else receiver.codes[0]
                if code == NO_HTTP:
                    self.wfile.write(b"\x15\x03\x01\x00\x02\x02\x46")
                    return
                self.send_response(code)
                self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, body in self.got]


@contextmanager
def sending(
    receiver: Receiver, folder: Path, secret: bytes = SECRET, trouble: str | None = None
) -> Iterator[tuple[States, Webhook]]:
    (folder / "secret").write_bytes(secret)
    url = f"http://127.0.0.1:{receiver.server.server_address[1]}/hook"
    prometheus = replace(
        Settings().prometheus, incident_webhook=url, incident_webhook_secret_file=str(folder / "secret")
    )
    settings = replace(Settings(), prometheus=prometheus)
    webhook = Webhook(settings, lambda: trouble, pauses=(0.01,))
    states = States(settings, clock=lambda: NOW_MS / 1000)
    states.changed = webhook.note
    try:
        yield states, webhook
    finally:
        webhook.close(0.1)
        receiver.server.shutdown()
        receiver.server.server_close()


def suspected(at_ms: int) -> dict[str, Any]:
    return record(
        verdict("producer-callback-deadlock", "suspected"), worst="suspected", end_ms=at_ms, client_id="order-producer"
    )


def test_each_change_of_an_incident_is_one_event_in_order(tmp_path: Path) -> None:
    receiver = Receiver()
    fine = verdict("producer-callback-deadlock", "ok")
    with sending(receiver, tmp_path) as (states, _):
        for one in (
            record(fine, end_ms=NOW_MS - 90_000),
            suspected(NOW_MS - 60_000),
            suspected(NOW_MS - 30_000),
            deadlock(),
            record(fine, end_ms=NOW_MS + 30_000),
        ):
            states.put(*wire(one))
        eventually(lambda: len(receiver.got) == 3)
    opened, changed, closed = receiver.events
    kinds = [event["type"].removeprefix("kafka-client-health.incident.") for event in receiver.events]
    assert kinds == ["opened.v1", "changed.v1", "closed.v1"]
    assert [(e["data"]["was"], e["data"]["status"]) for e in receiver.events] == [
        (None, "suspected"),
        ("suspected", "confirmed"),
        ("confirmed", None),
    ]
    assert len({event["id"] for event in receiver.events}) == 3
    assert {(event["specversion"], event["subject"]) for event in receiver.events} == {("1.0", KEY)}
    assert changed["data"]["cause"] == "get-in-callback" and changed["data"]["since"] == NOW_MS - 90_000
    assert changed["data"]["evidence"][0]["source"] == {"topic": "client-metrics", "partition": 2, "offset": 88123}
    assert closed["data"]["evidence"] == [] and opened["source"].startswith("/kafka-client-health/")
    assert receiver.got[0][0]["content-type"] == "application/cloudevents+json; charset=utf-8"


@pytest.mark.parametrize("secret", [SECRET, b"whsec_" + base64.b64encode(SECRET)])
def test_events_are_signed_over_their_id_time_and_body(tmp_path: Path, secret: bytes) -> None:
    receiver = Receiver()
    with sending(receiver, tmp_path, secret) as (states, _):
        states.put(*wire(deadlock()))
        eventually(lambda: receiver.got)
    [(headers, body)] = receiver.got
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    expected = base64.b64encode(hmac.new(SECRET, signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{expected}"
    assert abs(int(headers["webhook-timestamp"]) - time.time()) < 300


@pytest.mark.parametrize(
    ("codes", "attempts", "sent", "dropped"),
    [
        ((503, 429, 204), 3, 1, 0),
        ((NO_HTTP, 204), 2, 1, 0),
        ((400,), 1, 0, 1),
        # A redirected POST would reach the next server as a GET.
        ((302,), 1, 0, 1),
    ],
)
def test_what_can_succeed_later_is_repeated_and_what_cannot_is_not(
    tmp_path: Path, codes: tuple[int, ...], attempts: int, sent: int, dropped: int
) -> None:
    receiver = Receiver(*codes)
    with sending(receiver, tmp_path) as (states, webhook):
        states.put(*wire(deadlock()))
        eventually(lambda: (webhook.sent_total, webhook.dropped_total) == (sent, dropped))
    assert len(receiver.got) == attempts
    assert len({headers["webhook-id"] for headers, _ in receiver.got}) == 1


def test_what_was_before_all_of_the_topic_was_read_is_no_news(tmp_path: Path) -> None:
    receiver = Receiver()
    with sending(receiver, tmp_path, trouble="reading client-health: 5 records are left") as (states, webhook):
        states.put(*wire(deadlock()))
        webhook.close(0.2)
    assert receiver.got == []


def test_a_receiver_that_accepts_nothing_delays_nothing_and_fills_no_memory(tmp_path: Path) -> None:
    receiver = Receiver(500)
    with sending(receiver, tmp_path) as (states, webhook):
        began = time.monotonic()
        for number in range(MAX_WAITING + 50):
            states.put(*wire(deadlock(client_id=f"p{number}")))
        assert time.monotonic() - began < 30
        assert len(webhook._waiting) == MAX_WAITING
        assert webhook.dropped_total == 50
        eventually(lambda: len(receiver.got) > 2)
        assert webhook.sent_total == 0


def test_two_exporters_give_a_change_the_same_id(tmp_path: Path) -> None:
    ids = []
    for name in ("a", "b"):
        receiver = Receiver()
        (tmp_path / name).mkdir()
        with sending(receiver, tmp_path / name) as (states, _):
            states.put(*wire(deadlock()))
            eventually(receiver.got.__len__)
        ids += [event["id"] for event in receiver.events]
    assert len(ids) == 2 and len(set(ids)) == 1
