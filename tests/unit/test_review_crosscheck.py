"""What Prometheus says of the alerts, from a small stand-in for its API; a real one is in the end-to-end test."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from clienthealth.errors import ServiceError
from clienthealth.review.crosscheck import firing
from clienthealth.review.model import MeasurementAlert
from tests.support.review_example import WEEK

RULES = {
    "groups": [
        {"interval": 15, "rules": [{"name": "KafkaClientProducerCallbackDeadlock"}]},
        {"interval": 30, "rules": [{"name": "KafkaClientBufferNearlyFull"}]},
    ]
}


class Prometheus(BaseHTTPRequestHandler):
    answers: dict[str, Any]
    asked: list[dict[str, list[str]]]

    def do_GET(self) -> None:
        where = urlsplit(self.path)
        query = parse_qs(where.query)
        self.asked.append(query)
        answer = self.answers.get(query.get("query", [where.path])[0][:4], self.answers.get("else"))
        status = 200 if isinstance(answer, dict) else 503
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def prometheus() -> Iterator[tuple[str, type[Prometheus]]]:
    handler = type("Handler", (Prometheus,), {"answers": {}, "asked": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}", handler
        server.shutdown()


def vector(*rows: tuple[dict[str, str], str]) -> dict[str, Any]:
    return {"status": "success", "data": {"result": [{"metric": m, "value": [0, v]} for m, v in rows]}}


DEADLOCK = {
    "alertname": "KafkaClientProducerCallbackDeadlock",
    "severity": "critical",
    "mode": "producer-callback-deadlock",
}
BUFFER = {"alertname": "KafkaClientBufferNearlyFull", "severity": "warning"}


def test_samples_times_the_interval_of_the_group(prometheus: tuple[str, type[Prometheus]]) -> None:
    url, handler = prometheus
    handler.answers = {
        "/api": {"status": "success", "data": RULES},
        "sum ": vector((DEADLOCK, "400"), (BUFFER, "10")),
    }
    modes, others = firing(url, WEEK, {})
    assert modes == {("producer-callback-deadlock", "critical"): 6000}
    assert others == [MeasurementAlert("KafkaClientBufferNearlyFull", "warning", 10, 300)]
    asked = [query for query in handler.asked if "query" in query]
    assert {query["time"][0] for query in asked} == {"1794787200"}
    assert "[10080m]" in asked[0]["query"][0]
    assert "offset 15s)[10080m:15s]" in asked[1]["query"][0]


def test_of_a_prometheus_that_several_clusters_share_only_the_own_alerts_count(
    prometheus: tuple[str, type[Prometheus]],
) -> None:
    url, handler = prometheus
    handler.answers = {"/api": {"status": "success", "data": RULES}, "sum ": vector()}
    firing(url, WEEK, {"cluster": 'prod "eu"', "env": "prod"})
    selectors = [
        query["query"][0].count(r'ALERTS{alertstate="firing", cluster="prod \"eu\"", env="prod"}')
        for query in handler.asked
        if "query" in query
    ]
    assert selectors == [1, 2]


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        ({"else": {"status": "error", "error": "no storage"}}, "refused the query: no storage"),
        ({"else": None}, "answered 503"),
    ],
)
def test_a_prometheus_that_cannot_answer(
    prometheus: tuple[str, type[Prometheus]], answers: dict[str, Any], says: str
) -> None:
    url, handler = prometheus
    handler.answers = answers
    with pytest.raises(ServiceError) as caught:
        firing(url, WEEK, {})
    assert says in str(caught.value)


def test_an_address_that_is_none() -> None:
    with pytest.raises(ServiceError, match="is not an http or https address"):
        firing("file:///etc/passwd", WEEK, {})
