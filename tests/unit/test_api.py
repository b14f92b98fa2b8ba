"""The API of `kafka-health export prometheus` gives the answers that `exporters/api.md` shows."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from clienthealth.platform.web import Request
from clienthealth.settings import Settings
from clienthealth_exporters.prometheus.api import MAX_PAGE, ROUTES, openapi
from clienthealth_exporters.prometheus.exporter import Exporter
from clienthealth_exporters.prometheus.states import States
from deploy.reference.rooms import ROOT
from tests.support.health_records import NOW_MS, deadlock, group, healthy, record, wire

PAGE = (ROOT / "exporters/api.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^`GET (/api/v1/[^`]+)`.*?^```json\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
KEY = "orders-api%7Cweb-7%3A31337%7Corder-producer"


@pytest.fixture(scope="module")
def exporter() -> Exporter:
    states = States(Settings(), clock=lambda: NOW_MS / 1000)
    for number, one in enumerate((deadlock(), healthy(1), healthy(2))):
        name, value, _ = wire(one)
        states.put(name, value, NOW_MS + 1000 * number)
    return Exporter(Settings(), states, lambda: None, clock=lambda: NOW_MS / 1000)


def ask(exporter: Exporter, address: str, etag: str = "") -> tuple[int, Any, str]:
    path, _, query = address.partition("?")
    answer = exporter(Request(path, dict(part.split("=", 1) for part in query.split("&") if part), etag))
    body = answer.body if isinstance(answer.body, str) else b"".join(answer.body).decode()
    return answer.status, json.loads(body) if body else None, answer.headers.get("ETag", "")


def keys(exporter: Exporter, query: str) -> list[str]:
    return [one["client_id"] for one in ask(exporter, f"/api/v1/clients?{query}")[1]["clients"]]


def test_each_route_has_an_example_in_the_page() -> None:
    shown = {address.partition("?")[0].removeprefix("/api/v1/").split("/")[0] for address, _ in EXAMPLES}
    assert shown | {"openapi.json"} == {path.split("/")[0] for path in ROUTES}
    assert sum(KEY in address for address, _ in EXAMPLES) == 1


@pytest.mark.parametrize(("address", "text"), EXAMPLES)
def test_the_examples_of_the_page_are_what_is_answered(exporter: Exporter, address: str, text: str) -> None:
    status, answer, _ = ask(exporter, address)
    shown = json.loads(text)
    if "modes" in shown:
        answer["modes"] = [mode for mode in answer["modes"] if mode["id"] == shown["modes"][0]["id"]]
    assert (status, answer) == (200, shown)


@pytest.mark.parametrize(
    ("route", "address"),
    [("clients", "clients"), ("clients/{key}", f"clients/{KEY}"), ("incidents", "incidents"), ("modes", "modes")],
)
def test_answers_are_of_the_types_of_the_document(exporter: Exporter, route: str, address: str) -> None:
    document = json.loads(json.dumps(openapi()))
    answers = document["paths"][f"/api/v1/{route}"]["get"]["responses"]
    schema = answers["200"]["content"]["application/json"]["schema"]
    jsonschema.Draft202012Validator.check_schema({**schema, "components": document["components"]})
    whole = {**schema, "components": document["components"]}
    jsonschema.validate(ask(exporter, f"/api/v1/{address}")[1], whole)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({}, whole)
    assert ask(exporter, "/api/v1/openapi.json")[1] == document


def test_pages_filters_and_fields(exporter: Exporter) -> None:
    all_keys = keys(exporter, "")
    assert all_keys[0] == "order-producer" and len(all_keys) == 3
    assert [*keys(exporter, "limit=2"), *keys(exporter, "limit=2&page=2")] == all_keys
    assert keys(exporter, "limit=2&page=3") == []
    assert keys(exporter, "unhealthy=true") == keys(exporter, "status=confirmed") == ["order-producer"]
    assert keys(exporter, "mode=producer-callback-deadlock&q=ORDER") == ["order-producer"]
    short = ask(exporter, "/api/v1/clients?fields=status,lag&limit=1")[1]
    assert short["clients"] == [{"key": "orders-api|web-7:31337|order-producer", "status": "confirmed", "lag": None}]
    assert (short["total"], short["pages"]) == (3, 3)


def test_a_poller_gets_what_has_changed_and_nothing_twice(exporter: Exporter) -> None:
    # The three records were written at NOW_MS, one second later, and two seconds later.
    assert [len(keys(exporter, f"since={NOW_MS + late}")) for late in (0, 1, 1001, 2001)] == [3, 2, 1, 0]
    status, _, etag = ask(exporter, "/api/v1/clients")
    assert status == 200 and etag
    assert ask(exporter, "/api/v1/clients", etag) == (304, None, etag)
    assert ask(exporter, "/api/v1/clients?limit=1", etag)[0] == 200


@pytest.mark.parametrize(
    ("address", "status", "message"),
    [
        ("clients?limit=501", 400, f"limit must be a whole number from 1 to {MAX_PAGE}"),
        ("clients?limit=0", 400, f"limit must be a whole number from 1 to {MAX_PAGE}"),
        ("clients?limit=x", 400, f"limit must be a whole number from 1 to {MAX_PAGE}"),
        ("clients?limit=" + "0" * 17 + "9", 400, f"limit must be a whole number from 1 to {MAX_PAGE}"),
        ("clients?limit=" + "9" * 6000, 400, f"limit must be a whole number from 1 to {MAX_PAGE}"),
        ("clients?unhealthy=yes", 400, "unhealthy must be true or false"),
        ("clients?fields=secret", 400, "unknown fields: secret"),
        ("clients?team=x&tema=x", 400, "unknown parameters: tema"),
        ("clients/unknown", 404, "there is no client with the key unknown"),
        ("clients/a%7Cb%7Cc", 404, "there is no client with the key a|b|c"),
        ("incidents/x", 404, "there is no /api/v1/incidents/x"),
        ("", 404, "there is no /api/v1/"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_reason(
    exporter: Exporter, address: str, status: int, message: str
) -> None:
    code, answer, _ = ask(exporter, f"/api/v1/{address}")
    assert (code, list(answer)) == (status, ["error"])
    assert answer["error"].startswith(message)


def test_lists_are_bounded_and_contain_the_total() -> None:
    states = States(Settings(), clock=lambda: NOW_MS / 1000)
    for number in range(MAX_PAGE + 20):
        states.put(*wire(deadlock(client_id=f"p{number}")))
    exporter = Exporter(Settings(), states, lambda: "starting", clock=lambda: NOW_MS / 1000)
    listed = ask(exporter, f"/api/v1/clients?limit={MAX_PAGE}")[1]
    assert (len(listed["clients"]), listed["total"], listed["pages"]) == (MAX_PAGE, MAX_PAGE + 20, 2)
    incidents = ask(exporter, f"/api/v1/incidents?limit={MAX_PAGE}")[1]
    assert (len(incidents["open"]), incidents["open_total"], len(incidents["recent"])) == (500, 520, 500)
    assert listed["trouble"] == incidents["trouble"] == "starting"


def test_a_group_and_a_client_that_has_gone_have_their_own_words() -> None:
    states = States(Settings(), clock=lambda: NOW_MS / 1000)
    states.put(*wire(group()))
    states.put(*wire(record(client_id="left", departed=True)))
    exporter = Exporter(Settings(), states, lambda: None, clock=lambda: NOW_MS / 1000)
    words = {one["kind"]: one["status"] for one in ask(exporter, "/api/v1/clients")[1]["clients"]}
    assert words["producer"] == "gone" and words["group"] in ("ok", "unknown", "lagging", "partial", "suspected")
