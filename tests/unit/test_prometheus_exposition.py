"""The page for Prometheus has valid lines and a bounded size."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from clienthealth.settings import PrometheusSettings, Settings
from clienthealth_exporters.prometheus.exporter import Exporter
from clienthealth_exporters.prometheus.series import ALL_FAMILIES, SCOPES
from clienthealth_exporters.prometheus.states import States
from tests.support.health_records import NOW_MS, deadlock, group, healthy, key, record, verdict, wire

NOW = NOW_MS / 1000
LABELS = 'service="orders-api",host="web-7",instance="web-7:31337",client_id="order-producer"'
GROUP = 'cluster_name="prod-eu",group="order-workers",group_type="classic"'
MEMBER = 'member_host="/10.0.0.8",consumer_id="worker-1-aa",client_id="worker-1"'


def served(*records: dict[str, Any], trouble: str | None = None, **options: Any) -> list[str]:
    settings = replace(Settings(), prometheus=replace(PrometheusSettings(), **options))
    states = States(settings, clock=lambda: NOW)
    for one in records:
        states.put(*wire(one))
    return lines(b"".join(Exporter(settings, states, lambda: trouble, clock=lambda: NOW).metrics()).decode())


def lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("#")]


def test_deadlocked_producer_exactly() -> None:
    assert served(deadlock()) == [
        f"kafka_client_up{{{LABELS}}} 1",
        f"kafka_client_last_seen_timestamp_seconds{{{LABELS}}} 1795208640",
        f'kafka_client_info{{{LABELS},library="java",version="3.9.1",kind="producer"}} 1',
        f'kafka_client_failure_mode{{{LABELS},mode="producer-callback-deadlock",status="confirmed"}} 1',
        f'kafka_client_failure_mode_since_timestamp_seconds{{{LABELS},mode="producer-callback-deadlock"}} 1795208550',
        f"kafka_client_producer_buffer_used_ratio{{{LABELS}}} 1",
        f"kafka_client_producer_buffer_total_bytes{{{LABELS}}} 4194304",
        f"kafka_client_producer_buffer_available_bytes{{{LABELS}}} 0",
        f"kafka_client_producer_waiting_threads{{{LABELS}}} 4",
        f"kafka_client_producer_buffer_exhausted_records_total{{{LABELS}}} 118",
        f"kafka_client_producer_io_thread_busy_ratio{{{LABELS}}} 1",
        f'kafka_client_producer_request_latency_seconds{{{LABELS},stat="avg"}} 0.012',
        f'kafka_client_producer_request_latency_seconds{{{LABELS},stat="max"}} 0.25',
        'kafka_client_service_clients{service="orders-api",status="ok"} 0',
        'kafka_client_service_clients{service="orders-api",status="partial"} 0',
        'kafka_client_service_clients{service="orders-api",status="unknown"} 0',
        'kafka_client_service_clients{service="orders-api",status="suspected"} 0',
        'kafka_client_service_clients{service="orders-api",status="confirmed"} 1',
        'kafka_client_service_clients{service="orders-api",status="gone"} 0',
        'kafka_client_service_failure_mode_clients{service="orders-api",mode="producer-callback-deadlock",'
        'status="confirmed"} 1',
        'kafka_client_service_version_clients{service="orders-api",kind="producer",library="java",version="3.9.1",'
        'status="confirmed"} 1',
        'kafka_client_service_known_bug_clients{service="orders-api"} 1',
        'kafka_client_service_producer_buffer_used_ratio_max{service="orders-api"} 1',
        'kafka_client_service_producer_io_thread_busy_ratio_max{service="orders-api"} 1',
        "kafka_client_health_exporter_up 1",
        "kafka_client_health_exporter_decode_errors_total 0",
        'kafka_client_health_exporter_newest_record_timestamp_seconds{of="clients"} 1795208640',
    ]


def test_group_has_the_names_and_labels_of_kafka_lag_exporter() -> None:
    lines = [line for line in served(group(partitions=1)) if line.startswith(("kafka_consumergroup", "kafka_part"))]
    assert lines == [
        f'kafka_consumergroup_group_lag{{{GROUP},topic="orders",partition="0",{MEMBER}}} 120',
        f'kafka_consumergroup_group_lag_seconds{{{GROUP},topic="orders",partition="0",{MEMBER}}} 4.2',
        f'kafka_consumergroup_group_offset{{{GROUP},topic="orders",partition="0",{MEMBER}}} 880',
        f"kafka_consumergroup_group_max_lag{{{GROUP}}} 120",
        f"kafka_consumergroup_group_max_lag_seconds{{{GROUP}}} 4.2",
        f"kafka_consumergroup_group_sum_lag{{{GROUP}}} 120",
        f'kafka_consumergroup_group_topic_sum_lag{{{GROUP},topic="orders"}} 120',
        f'kafka_consumergroup_group_status{{{GROUP},status="OK"}} 1',
        'kafka_partition_latest_offset{cluster_name="prod-eu",topic="orders",partition="0"} 1000',
        'kafka_partition_earliest_offset{cluster_name="prod-eu",topic="orders",partition="0"} 400',
    ]


def test_a_topic_of_two_groups_has_its_offsets_once() -> None:
    lines = served(group("a"), group("b"))
    assert len(lines) == len(set(lines))
    assert sum(line.startswith("kafka_partition_latest_offset") for line in lines) == 2


def test_one_group_under_two_services_is_one_group() -> None:
    older = group(end_ms=NOW_MS - 10_000)
    older["client"]["service"] = "orders-api"
    older["indicators"]["group"]["sum_lag"] = 999
    lines = [line for line in served(older, group()) if line.startswith("kafka_consumergroup_group_sum_lag")]
    assert lines == [f"kafka_consumergroup_group_sum_lag{{{GROUP}}} 240"]


def consumer(group_name: str | None) -> dict[str, Any]:
    lag = [{"topic": "orders", "partition": 0, "records": 7, "quality": "exact", "state": "OK"}]
    return record(kind="consumer", client_id="worker-1", group=group_name, indicators={"lag": lag})


def test_consumers_own_lag_counts_only_where_no_group_record_speaks() -> None:
    own = (
        'kafka_consumergroup_group_lag{cluster_name="default",group="",topic="orders",partition="0",'
        'member_host="web-7",consumer_id="",client_id="worker-1"} 7'
    )
    assert own in served(consumer(None), group())
    shown = [line for line in served(consumer("order-workers"), group(partitions=1)) if "group_lag{" in line]
    assert shown == [f'kafka_consumergroup_group_lag{{{GROUP},topic="orders",partition="0",{MEMBER}}} 120']


def test_last_seen_is_never_in_the_future() -> None:
    assert f"kafka_client_last_seen_timestamp_seconds{{{LABELS}}} 1795208640" in served(record(end_ms=NOW_MS + 30_000))


def test_departed_client_is_down() -> None:
    assert f"kafka_client_up{{{LABELS}}} 0" in served(record(departed=True))


HOSTILE = 'a"b\\c\nkafka_client_up 5 \x00 \ud800 é'


def test_hostile_names_stay_inside_their_label() -> None:
    hostile = record(service=HOSTILE)
    settings = Settings()
    states = States(settings, clock=lambda: NOW)
    states.put(b"k", json.dumps(hostile).encode(), NOW_MS)
    text = b"".join(Exporter(settings, states, lambda: None).metrics()).decode()
    (sample,) = [s for f in text_string_to_metric_families(text) for s in f.samples if s.name == "kafka_client_up"]
    assert sample.labels["service"] == HOSTILE.replace("\ud800", "?")


@pytest.mark.parametrize("value", ["NaN", None, "12", True, -1, float("nan"), float("inf"), [], {}, 1e300])
def test_what_is_no_number_has_no_line(value: object) -> None:
    odd = healthy(indicators={"buffer_used_ratio": {"last": value}, "buffer": value, "io_thread_busy_ratio": value})
    lag = group(partitions=1)
    lag["indicators"]["lag"][0] |= {"records": value, "seconds": value, "committed_offset": value}
    lines = [
        line
        for line in served(odd, lag)
        if re.match(r"kafka_client_producer|kafka_\w+_(lag|offset|lag_seconds){.*member", line)
    ]
    assert lines == []


def test_no_metric_for_what_is_unknown() -> None:
    names = {re.split("[{ ]", line)[0] for line in served(record())}
    assert names == {
        "kafka_client_up",
        "kafka_client_last_seen_timestamp_seconds",
        "kafka_client_info",
        "kafka_client_service_clients",
        "kafka_client_service_known_bug_clients",
        "kafka_client_service_version_clients",
        "kafka_client_health_exporter_up",
        "kafka_client_health_exporter_decode_errors_total",
        "kafka_client_health_exporter_newest_record_timestamp_seconds",
    }


def room(most: int, *records: dict[str, Any], looked_every: float = 10.0) -> States:
    now = [NOW]
    settings = replace(Settings(), prometheus=replace(PrometheusSettings(), max_clients=most))
    states = States(settings, clock=lambda: now[0])
    for one in records:
        now[0] += looked_every
        states.put(*wire(one))
    return states


def ids(states: States) -> set[str]:
    return {state.client.instance for state in states.live()}


def test_beyond_the_bound_the_gone_make_room_then_the_healthy_for_those_that_fail() -> None:
    gone = healthy(1, instance="gone", departed=True)
    first = [gone, healthy(2, instance="b"), healthy(3, instance="c")]
    assert ids(room(3, *first, healthy(4, instance="d"))) == {"b", "c", "d"}
    again = room(3, *first, healthy(4, instance="d"), healthy(5, instance="e"))
    assert ids(again) == {"b", "c", "d"} and again.left_out == 1, "no healthy client is removed for another healthy one"
    failing = room(3, *first, deadlock(instance="f"), deadlock(instance="g"), deadlock(instance="h"))
    assert ids(failing) == {"f", "g", "h"} and failing.left_out == 0
    failing.put(*wire(deadlock(instance="i")))
    assert ids(failing) == {"f", "g", "h"} and failing.left_out == 1
    failing.put(*wire(deadlock(instance="h", end_ms=NOW_MS + 10_000)))
    assert failing.left_out == 1, "known clients stay"


def test_ids_without_end_fill_neither_memory_nor_page() -> None:
    """Of 3,000 clients, half have departed. The exporter keeps 100 clients, and shows 40 on its page."""
    many = [healthy(n, instance=f"i{n}", departed=n % 2 == 0) for n in range(3000)]
    states = room(100, *many, looked_every=0.0)
    assert len(states.live()) == 100
    assert sum(state.departed for state in states.live()) < 10, "those that live have the places"
    settings = replace(Settings(), prometheus=replace(PrometheusSettings(), max_clients=100, max_series_per_metric=40))
    text = b"".join(Exporter(settings, states, lambda: None).metrics()).decode()
    assert len([line for line in lines(text) if line.startswith("kafka_client_up{")]) == 40
    assert sum(state.lines is not None for state in states.live()) == 40, "no lines of those that are not served"
    dropped = 'kafka_client_health_series_dropped_total{metric="kafka_client_up"}'
    assert f"{dropped} {states.left_out + 60}" in lines(text)


def test_cap_leaves_out_the_healthy_and_counts_them() -> None:
    settings = replace(Settings(), prometheus=replace(PrometheusSettings(), max_series_per_metric=1))
    states = States(settings, clock=lambda: NOW)
    for one in (healthy(1), healthy(2), deadlock()):
        states.put(*wire(one))
    exporter = Exporter(settings, states, lambda: None)
    scraped = lines(b"".join(exporter.metrics()).decode())
    (up,) = (line for line in scraped if line.startswith("kafka_client_up{"))
    assert "order-producer" in up
    dropped = 'kafka_client_health_series_dropped_total{metric="kafka_client_up"}'
    assert f"{dropped} 2" in scraped
    assert f"{dropped} 4" in lines(b"".join(exporter.metrics()).decode()), "counted at every scrape"
    assert 'kafka_client_service_clients{service="billing",status="ok"} 2' in scraped, "counts are outside of the cap"


def test_before_the_topic_is_read_only_the_exporter_is_shown() -> None:
    assert served(deadlock(), trouble="reading client-health: 9 records are left") == [
        "kafka_client_health_exporter_up 0",
        "kafka_client_health_exporter_decode_errors_total 0",
        'kafka_client_health_exporter_newest_record_timestamp_seconds{of="clients"} 1795208640',
    ]


def test_after_kafka_is_lost_the_last_state_stays() -> None:
    settings = Settings()
    states = States(settings, clock=lambda: NOW)
    states.put(*wire(deadlock()))
    troubles = iter([None, "Kafka at x is lost"])
    exporter = Exporter(settings, states, lambda: next(troubles))
    before, after = lines(b"".join(exporter.metrics()).decode()), lines(b"".join(exporter.metrics()).decode())
    assert before[:-3] == after[:-3] and len(after) > 10
    assert "kafka_client_health_exporter_up 0" in after


def test_names_of_the_table() -> None:
    assert len({family.name for family in ALL_FAMILIES}) == len(ALL_FAMILIES)
    for family in ALL_FAMILIES:
        assert family.name.endswith("_total") == (family.kind == "counter"), family.name
        assert len(set(family.labels)) == len(family.labels)
        assert family.help.endswith(".")


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_finds_nothing_to_complain_of() -> None:
    settings = replace(Settings(), prometheus=replace(PrometheusSettings(), max_series_per_metric=9))
    states = States(settings, clock=lambda: NOW)
    states.put(b"x", b"{", NOW_MS)
    queue = {"queues": [{"topic": "t", "used_ratio": 0.5}], "poll_idle_ratio": 0.1, "last_poll_age_seconds": 2}
    for one in (deadlock(), healthy(), group(), record(kind="consumer", instance="i", indicators=queue)):
        states.put(*wire(one))
    text = b"".join(Exporter(settings, states, lambda: None).metrics()).decode()
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=12,
)
paths = st.sampled_from(["client", "verdicts", "indicators", "window_end", "window_start", "worst", "samples"])
inner = st.sampled_from(["lag", "queues", "group", "buffer", "callback_seconds", "buffer_used_ratio"])


@settings(deadline=None)
@given(st.lists(st.tuples(paths, json_values), max_size=3), st.lists(st.tuples(inner, json_values), max_size=3))
def test_no_record_breaks_a_scrape(outer: list[tuple[str, Any]], inside: list[tuple[str, Any]]) -> None:
    broken = group() | dict(outer)
    if isinstance(broken["indicators"], dict):
        broken["indicators"] = broken["indicators"] | dict(inside)
    settings = Settings()
    states = States(settings, clock=lambda: NOW)
    states.put(*wire(deadlock()))
    states.put(key("consumer-groups", "prod-eu", "x"), json.dumps(broken).encode(), NOW_MS)
    text = b"".join(Exporter(settings, states, lambda: None).metrics()).decode()
    values = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    assert any(sample.labels.get("client_id") == "order-producer" for sample in values)
    for sample in values:
        assert 0 <= sample.value < float("inf")


def evidence(scraped: list[str]) -> dict[str, list[tuple[str, float]]]:
    found: dict[str, list[tuple[str, float]]] = {}
    for family in ALL_FAMILIES:
        for line in scraped if family.evidence else ():
            if line.startswith(f"{family.name}{{"):
                client_id = re.findall(r'client_id="([^"]*)"', line)[0]
                found.setdefault(family.name, []).append((client_id, float(line.rpartition(" ")[2])))
    return found


@pytest.mark.parametrize("client_series", ["all", "unhealthy"])
def test_evidence_is_served_for_the_unhealthy_and_for_five_like_them(client_series: str) -> None:
    ill = deadlock()
    ill["indicators"] |= {"select_rate": 0.0, "undelivered_seconds": 58.0}
    numbers = {"select_rate": 12.0, "metadata_age_seconds": 90.0}
    like = [record(verdict("delivery-stalled", "ok"), client_id=f"p{n}", indicators=numbers) for n in range(9)]
    heartbeat = {"last_heartbeat_age_seconds": 1.0}
    others = [
        record(verdict("consumer-stalled", "ok"), client_id="reader", kind="consumer", indicators=heartbeat),
        record(verdict("delivery-stalled", "ok"), service="shop", client_id="s", indicators=numbers),
    ]
    assert evidence(served(ill, *like, *others, client_series=client_series)) == {
        "kafka_client_producer_select_rate": [("order-producer", 0), *((f"p{n}", 12) for n in range(5))],
        "kafka_client_producer_undelivered_age_seconds": [("order-producer", 58)],
        "kafka_client_producer_metadata_age_seconds": [(f"p{n}", 90) for n in range(5)],
    }
    assert evidence(served(*like, *others, client_series=client_series)) == {}


def test_evidence_of_a_verdict_is_its_upper_end_and_reaches_back_to_its_onset() -> None:
    stalled = verdict("delivery-stalled", "confirmed", since=NOW_MS - 90_000)
    lost = {"lost_bytes": [0, 9_000], "lost_records": [0, 30], "cause": "killed"}
    waiting = verdict("send-blocked-on-metadata", "suspected", detail={"blocked_threads": 7})
    ill = [
        record(stalled, worst="confirmed", client_id="a", indicators={"undelivered_seconds": 58.0}),
        record(verdict("producer-not-closed", "confirmed", detail=lost), worst="confirmed", client_id="b"),
        record(waiting, worst="suspected", client_id="c"),
        record(verdict("producer-not-closed", "unknown", detail=lost, reason="x"), worst="unknown", client_id="d"),
    ]
    assert evidence(served(*ill)) == {
        "kafka_client_producer_undelivered_age_seconds": [("a", 90)],
        "kafka_client_producer_left_at_end_bytes": [("b", 9_000)],
        "kafka_client_producer_left_at_end_records": [("b", 30)],
        "kafka_client_producer_metadata_waiting_threads": [("c", 7)],
    }


def test_what_is_prepared_is_answered_without_a_look_at_any_record(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings()
    states = States(settings, clock=lambda: NOW)
    states.put(*wire(deadlock()))
    exporter = Exporter(settings, states, lambda: None, clock=lambda: NOW)
    exporter.prepare()
    monkeypatch.setattr("clienthealth_exporters.prometheus.states.lines", None)
    assert f"kafka_client_up{{{LABELS}}} 1" in lines(b"".join(exporter.metrics()).decode())


def test_page_lists_every_metric() -> None:
    text = (Path(__file__).parents[2] / "exporters/metrics.md").read_text("utf-8")
    for family in ALL_FAMILIES:
        own = ["*client*"] if family.scope == "client" else [*SCOPES[family.scope]]
        assert f"| `{family.name}` | {', '.join((*own, *family.extra)) or '–'} | {family.help} |\n" in text
    assert text.count("\n| `kafka_") == len(ALL_FAMILIES)
