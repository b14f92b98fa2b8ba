"""The inhibitions in alertmanager.yml mute the right alerts."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest

from deploy.demo.alerting import alertmanager_config
from tests.support.alert_rules import ROOT, read

CONFIG = ROOT / "alerts/alertmanager.yml"
CLIENT = {"service": "orders", "host": "h", "instance": "h:1", "client_id": "c"}
DEADLOCK = {"alertname": "KafkaClientProducerCallbackDeadlock", "mode": "producer-callback-deadlock", **CLIENT}
CRITICAL, WARNING = {"severity": "critical"}, {"severity": "warning"}
CONFIRMED, SUSPECTED = {**CRITICAL, "status": "confirmed"}, {**WARNING, "status": "suspected"}
SUSPECTED_OTHER = {**DEADLOCK, "alertname": "KafkaClientSendBlockedOnMetadata", "mode": "send-blocked-on-metadata"}
BUFFER = {"alertname": "KafkaClientBufferNearlyExhausted", "measurement": "buffer", **CLIENT}
BURN = {"alertname": "KafkaClientErrorBudgetBurn", "service": "orders", "long": "1h", "short": "5m"}
RETENTION = {
    "alertname": "KafkaClientLagRetentionAtRisk",
    "measurement": "lag",
    "cluster_name": "eu",
    "group": "g",
    "topic": "t",
}
MONITOR_DOWN = {"alertname": "KafkaClientHealthMonitorDown", **CRITICAL}
FLEET_SUSPECTED = {"alertname": "KafkaClientFleetSuspected", **WARNING}
FLEET_SILENT = {"alertname": "KafkaClientFleetSilent", **CRITICAL}
SILENT = {"alertname": "KafkaClientServiceSilent", "service": "orders"}
FLEET = {"alertname": "KafkaClientFleetUnhealthy", **CRITICAL}


@pytest.mark.parametrize(
    ("source", "target", "inhibits"),
    [
        pytest.param({**DEADLOCK, **CONFIRMED}, {**DEADLOCK, **SUSPECTED}, True, id="confirmed silences suspected"),
        pytest.param({**DEADLOCK, **SUSPECTED}, {**DEADLOCK, **CONFIRMED}, False, id="suspected silences nothing"),
        pytest.param({**DEADLOCK, **CONFIRMED}, {**SUSPECTED_OTHER, **SUSPECTED}, False, id="another mode is news"),
        pytest.param(
            {**DEADLOCK, **CONFIRMED}, {**DEADLOCK, **SUSPECTED, "instance": "h:2"}, False, id="another client is news"
        ),
        pytest.param({**DEADLOCK, **CONFIRMED}, {**BUFFER, **WARNING}, True, id="a deadlock explains a full buffer"),
        pytest.param(
            {**DEADLOCK, **CONFIRMED}, {**BUFFER, **WARNING, "client_id": "d"}, False, id="not that of another client"
        ),
        pytest.param({**DEADLOCK, **CONFIRMED}, {**BURN, **CRITICAL}, True, id="a page for the cause is enough"),
        pytest.param(
            {**DEADLOCK, **SUSPECTED}, {**BURN, **CRITICAL}, True, id="a failure is paged once, when it is sure"
        ),
        pytest.param(
            {**DEADLOCK, **CONFIRMED},
            {**BURN, **CRITICAL, "service": "x"},
            False,
            id="another service burns for itself",
        ),
        pytest.param({**RETENTION, **CRITICAL}, {**RETENTION, **WARNING}, True, id="the higher threshold speaks"),
        pytest.param(
            {**RETENTION, **CRITICAL}, {**RETENTION, **WARNING, "topic": "u"}, False, id="another topic is news"
        ),
        pytest.param({**BURN, **CRITICAL}, {**BURN, **WARNING, "long": "3d"}, True, id="the faster burn speaks"),
        pytest.param(MONITOR_DOWN, {**DEADLOCK, **CONFIRMED}, True, id="a blind monitor: client alerts are old"),
        pytest.param(MONITOR_DOWN, {**RETENTION, **CRITICAL}, True, id="a blind monitor: lag alerts are old"),
        pytest.param(MONITOR_DOWN, {**BURN, **CRITICAL}, True, id="a blind monitor: the burn is old"),
        pytest.param(MONITOR_DOWN, MONITOR_DOWN, False, id="the monitor's own alert comes through"),
        pytest.param(
            MONITOR_DOWN, {"alertname": "KafkaClientHealthExporterDown", **CRITICAL}, False, id="so does the exporter's"
        ),
        pytest.param(
            MONITOR_DOWN, {"alertname": "KafkaClientHealthStale", **CRITICAL}, True, id="stale data is no news then"
        ),
        pytest.param(
            {**MONITOR_DOWN, "cluster": "eu"},
            {**DEADLOCK, **CONFIRMED, "cluster": "us"},
            False,
            id="another cluster is seen",
        ),
        pytest.param(
            {**MONITOR_DOWN, "cluster": "eu", "env": "prod"},
            {**DEADLOCK, **CONFIRMED, "cluster": "eu", "env": "staging"},
            False,
            id="so is another environment",
        ),
        pytest.param(
            {"alertname": "KafkaClientHealthQueryHung", **CRITICAL}, {**DEADLOCK, **CONFIRMED}, True, id="hung is blind"
        ),
        pytest.param(
            {"alertname": "KafkaClientHealthReplicaBlind", **WARNING},
            {**DEADLOCK, **CONFIRMED},
            False,
            id="one blind exporter of two mutes nothing",
        ),
        pytest.param(
            {"alertname": "KafkaClientHealthExporterBlind", **CRITICAL}, {**DEADLOCK, **CONFIRMED}, True, id="all blind"
        ),
        pytest.param(
            {"alertname": "KafkaClientHealthExporterBlind", **CRITICAL, "shard": "2/4"},
            {**DEADLOCK, **CONFIRMED},
            False,
            id="a blind shard does not speak for the others",
        ),
        pytest.param(
            {"alertname": "KafkaClientHealthExporterBlind", **CRITICAL, "shard": "2/4"},
            {"alertname": "KafkaClientHealthReplicaBlind", **WARNING, "shard": "2/4", "instance": "b"},
            True,
            id="all of a shard are blind: each is no news",
        ),
        pytest.param(
            FLEET, {**DEADLOCK, **CONFIRMED}, False, id="what was there before a fleet failed ends as it began"
        ),
        pytest.param(FLEET, {**DEADLOCK, **SUSPECTED}, False, id="so with tickets"),
        pytest.param(FLEET, {**BUFFER, **WARNING}, True, id="no tickets of buffers"),
        pytest.param(FLEET, {**BURN, **CRITICAL}, True, id="nor of the budgets of their services"),
        pytest.param(FLEET, {**RETENTION, **CRITICAL}, False, id="data that is about to be lost is news"),
        pytest.param(FLEET, {**DEADLOCK, **CONFIRMED, "cluster": "us"}, False, id="another cluster is fine"),
        pytest.param(
            {**DEADLOCK, **CONFIRMED, **WARNING}, {**DEADLOCK, **SUSPECTED}, True, id="also while paging is off"
        ),
        pytest.param(FLEET_SUSPECTED, {**DEADLOCK, **SUSPECTED}, False, id="the rules hold back what begins with it"),
        pytest.param(FLEET_SUSPECTED, {**DEADLOCK, **CONFIRMED}, False, id="what is sure is news"),
        pytest.param(FLEET_SUSPECTED, {**BUFFER, **WARNING}, True, id="and many buffers"),
        pytest.param(FLEET, FLEET_SUSPECTED, True, id="what is sure speaks for what is not"),
        pytest.param(
            FLEET_SILENT, {"alertname": "KafkaClientHealthStale", **CRITICAL}, True, id="one page for silence"
        ),
        pytest.param({"alertname": "KafkaClientHealthStale", **CRITICAL}, FLEET_SILENT, False, id="and that one"),
        pytest.param(FLEET_SILENT, {**SILENT, **WARNING}, True, id="all services are silent: one page"),
        pytest.param(
            {"alertname": "KafkaClientFleetServicesSilent", **WARNING},
            {**SILENT, **WARNING},
            True,
            id="many: one ticket",
        ),
        pytest.param(MONITOR_DOWN, FLEET_SILENT, True, id="silence of the monitor is not that of the fleet"),
        pytest.param(FLEET, FLEET, False, id="the page of the fleet itself comes through"),
        pytest.param(
            {**RETENTION, "alertname": "KafkaClientLagRecordsDeleted", **CRITICAL},
            {**RETENTION, **WARNING},
            True,
            id="what is gone is no longer at risk",
        ),
        pytest.param(
            {"alertname": "KafkaClientHealthFallingBehind", **WARNING},
            {**DEADLOCK, **CONFIRMED},
            False,
            id="a late monitor still knows",
        ),
    ],
)
def test_inhibition(source: Mapping[str, str], target: Mapping[str, str], inhibits: bool) -> None:
    rules = read(CONFIG.read_text("utf-8"))["inhibit_rules"]
    assert any(_inhibits(rule, source, target) for rule in rules) is inhibits


def test_local_config_keeps_routes_and_inhibition() -> None:
    committed = read(CONFIG.read_text("utf-8"))
    local = read(alertmanager_config("http://127.0.0.1:9/hook"))
    assert {key: local[key] for key in ("global", "route", "inhibit_rules")} == {
        key: committed[key] for key in ("global", "route", "inhibit_rules")
    }
    assert {r["name"] for r in local["receivers"]} == {r["name"] for r in committed["receivers"]}


def test_committed_file_holds_no_secret() -> None:
    text = CONFIG.read_text("utf-8")
    assert re.findall(r"(?m)^\s*-?\s*(\w*(?:password|api_url|routing_key|service_key))\s*:", text) == []
    for address in re.findall(r"https?://([^/\s'\"}]+)", text):
        assert address.endswith("example.org")


def _inhibits(rule: Mapping[str, list[str]], source: Mapping[str, str], target: Mapping[str, str]) -> bool:
    def side(matchers: str, labels: Mapping[str, str]) -> bool:
        return all(_matches(matcher, labels) for matcher in rule[matchers])

    same = all(source.get(label, "") == target.get(label, "") for label in rule.get("equal", ()))
    both = side("source_matchers", target) and side("target_matchers", source)
    return side("source_matchers", source) and side("target_matchers", target) and same and not both


def _matches(matcher: str, labels: Mapping[str, str]) -> bool:
    match = re.fullmatch(r'(\w+)(=~|!~|=|!=)"(.*)"', matcher)
    assert match, matcher
    name, operator, wanted = match.groups()
    value = labels.get(name, "")
    hit = bool(re.fullmatch(wanted, value)) if "~" in operator else value == wanted
    return hit != operator.startswith("!")
