"""For a large fleet, /metrics has sums per service and a bounded number of series."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from clienthealth.configuration import installation
from clienthealth.model.errors import SettingsError
from clienthealth.platform.web import Request, Response
from clienthealth.settings import LinkSettings, MonitorSettings, PrometheusSettings, Settings
from clienthealth_exporters.alerts.build import rules
from clienthealth_exporters.prometheus.exporter import Exporter
from clienthealth_exporters.prometheus.services import VERSIONS
from clienthealth_exporters.prometheus.states import States
from dashboards.build import boards
from tests.support.health_records import NOW_MS, deadlock, group, healthy, record, verdict, wire

NOW = NOW_MS / 1000


def served(*records: dict[str, Any], cluster: str = "", **options: Any) -> list[str]:
    settings = Settings(monitor=MonitorSettings(cluster=cluster), prometheus=PrometheusSettings(port=0, **options))
    states = States(settings, clock=lambda: NOW)
    for one in records:
        states.put(*wire(one))
    text = b"".join(Exporter(settings, states, lambda: None, clock=lambda: NOW).metrics()).decode()
    return [line for line in text.splitlines() if not line.startswith(("#", "kafka_client_health"))]


def of(name: str, lines: list[str]) -> list[str]:
    return [line.removeprefix(name) for line in lines if line.startswith((f"{name}{{", f"{name} "))]


def consumer(**more: Any) -> dict[str, Any]:
    lag = [{"topic": "orders", "partition": 0, "records": 7, "quality": "exact", "state": "OK"}]
    return record(kind="consumer", client_id="worker-1", indicators={"lag": lag}, **more)


def test_what_the_producers_of_a_service_send_together() -> None:
    def sends(number: int, rate: float | None, **more: Any) -> dict[str, Any]:
        indicators = {} if rate is None else {"record_send_rate": rate}
        return record(client_id=f"p-{number}", indicators=indicators, **more)

    lines = served(
        *(sends(1, 12.5, service="a"), sends(2, 0.0, service="a"), sends(3, None, service="a")),
        *(sends(4, 7.0, service="a", departed=True), sends(5, 0.0, service="idle"), sends(6, None, service="mute")),
    )
    assert of("kafka_client_service_producer_record_send_rate", lines) == ['{service="a"} 12.5', '{service="idle"} 0']


def test_sums_of_a_service() -> None:
    lines = served(
        deadlock(service="a"),
        healthy(1, service="a"),
        healthy(2, service="a"),
        record(verdict("producer-not-closed", "suspected"), service="a", instance="s", worst="suspected"),
        record(
            verdict("producer-not-closed", "confirmed"), service="a", instance="g", worst="confirmed", departed=True
        ),
        record(verdict("producer-not-closed", "unknown", reason="x"), service="b", worst="unknown"),
        record(verdict("m", "ok"), verdict("n", "unknown"), service="b", instance="p", worst="unknown"),
        record(verdict("m", "ok"), verdict("n", "unknown"), service="b", instance="of the release before"),
        group(),
    )
    assert of("kafka_client_service_clients", lines) == [
        '{service="a",status="ok"} 2',
        '{service="a",status="partial"} 0',
        '{service="a",status="unknown"} 0',
        '{service="a",status="suspected"} 1',
        '{service="a",status="confirmed"} 1',
        '{service="a",status="gone"} 1',
        '{service="b",status="ok"} 0',
        '{service="b",status="partial"} 2',
        '{service="b",status="unknown"} 1',
        '{service="b",status="suspected"} 0',
        '{service="b",status="confirmed"} 0',
        '{service="b",status="gone"} 0',
    ]
    assert of("kafka_client_service_failure_mode_clients", lines) == [
        '{service="a",mode="producer-callback-deadlock",status="confirmed"} 1',
        '{service="a",mode="producer-not-closed",status="confirmed"} 1',
        '{service="a",mode="producer-not-closed",status="suspected"} 1',
        '{service="b",mode="n",status="unknown"} 2',
        '{service="b",mode="producer-not-closed",status="unknown"} 1',
    ]
    assert of("kafka_client_service_producer_callback_seconds_max", lines) == ['{service="a"} 0.00013']
    assert of("kafka_client_service_producer_buffer_used_ratio_max", lines) == ['{service="a"} 1']


def test_a_stale_client_is_unknown_in_the_sums() -> None:
    settings, now = Settings(), [NOW]
    states = States(settings, clock=lambda: now[0])
    states.put(*wire(deadlock()))
    now[0] += 1_000
    text = b"".join(Exporter(settings, states, lambda: None).metrics()).decode()
    assert 'kafka_client_service_clients{service="orders-api",status="unknown"} 1\n' in text
    assert 'kafka_client_service_clients{service="orders-api",status="confirmed"} 0\n' in text
    assert "kafka_client_service_producer_buffer_used_ratio_max" not in text


def test_in_a_large_fleet_only_clients_that_matter_have_series_of_their_own() -> None:
    fuller = healthy(4, client_id="filling", indicators={"buffer_used_ratio": {"last": 0.81}})
    skewed = healthy(5, client_id="skewed", indicators={"clock": {"skew_seconds": 90.0}})
    at_risk = group("at-risk", partitions=1)
    at_risk["indicators"]["lag"][0]["retention_used_ratio"] = 0.9
    lines = served(
        *(healthy(number) for number in range(3)),
        healthy(3, client_id="vip-1"),
        deadlock(),
        fuller,
        skewed,
        group("fine", partitions=1),
        group("stuck", status="STALL", partitions=1),
        at_risk,
        client_series="unhealthy",
        named_clients=("billing/vip-*",),
    )
    shown = {line.split('client_id="')[1].split('"')[0] for line in of("kafka_client_up", lines)}
    assert shown == {"vip-1", "order-producer", "filling", "skewed", "stuck", "at-risk"}
    assert {line.split('group="')[1].split('"')[0] for line in of("kafka_consumergroup_group_lag", lines)} == {
        "stuck",
        "at-risk",
    }
    assert len(of("kafka_consumergroup_group_sum_lag", lines)) == 3, "the totals of every group stay"
    assert len(of("kafka_partition_latest_offset", lines)) == 1
    assert '{service="billing",status="ok"} 6' in of("kafka_client_service_clients", lines)


def test_labels_of_the_installation_come_first_everywhere() -> None:
    every = [deadlock(), group()]
    plain = served(*every)
    labelled = served(*every, cluster='e"u', labels={"env": "prod"}, shard="1/1")
    begin = r'cluster="e\"u",env="prod",shard="1/1"'
    assert labelled == [line.replace("{", f"{{{begin},", 1) for line in plain]
    settings = Settings(prometheus=PrometheusSettings(labels={"env": "prod"}))
    own = b"".join(Exporter(settings, States(settings, clock=lambda: NOW), lambda: None).metrics()).decode()
    assert 'kafka_client_health_exporter_up{env="prod"} 1\n' in own


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"labels": {"1st": "x"}}, "'1st' is not a valid label name"),
        ({"labels": {"service": "x"}}, "our series already have the label 'service'"),
        ({"keep_labels": ("a-b",)}, "'a-b' is not a valid label name"),
        ({"shard": "5/4"}, "shard must be a string, a part and the number of parts, such as 2/4"),
        ({"shard": "0/4"}, "shard must be a string, a part and the number of parts, such as 2/4"),
        ({"shard": "half"}, "shard must be a string, a part and the number of parts, such as 2/4"),
        ({"client_series": "some"}, "client_series must be a string that is not empty, one of all, unhealthy"),
    ],
)
def test_settings_that_mean_nothing_are_errors(options: dict[str, Any], part: str) -> None:
    with pytest.raises(SettingsError, match=part):
        States(Settings(prometheus=replace(PrometheusSettings(), **options)))


def test_shards_add_up_to_the_whole() -> None:
    every = [deadlock(), *(healthy(number) for number in range(40)), group()]
    shards = [served(*every, shard=f"{number}/3") for number in (1, 2, 3)]
    clients = [[line.replace(f',shard="{n}/3"', "").replace(f'shard="{n}/3",', "") for line in shard]
               for n, shard in enumerate(shards, 1)]  # fmt: skip
    ups = [line for shard in clients for line in of("kafka_client_up", shard)]
    assert sorted(ups) == sorted(of("kafka_client_up", served(*every)))
    assert all(len(of("kafka_client_up", shard)) > 5 for shard in clients), "about even"
    fine = [
        line for shard in shards for line in of("kafka_client_service_clients", shard) if 'billing",status="ok"' in line
    ]
    assert sum(int(line.rsplit(" ", 1)[1]) for line in fine) == 40


def test_the_record_of_a_group_speaks_for_its_lag_in_whichever_shard_it_is() -> None:
    members = [consumer(instance=f"i-{number}", group="order-workers") for number in range(20)]
    for number in (1, 2):
        assert all(
            "worker-1-aa" in line
            for line in of("kafka_consumergroup_group_lag", served(*members, group(), shard=f"{number}/2"))
        )
        assert len(of("kafka_consumergroup_group_lag", served(*members, shard=f"{number}/2"))) > 2


def test_a_shard_without_news_goes_on_aging_by_those_of_the_others() -> None:
    settings, now = Settings(prometheus=PrometheusSettings(shard="1/2")), [NOW]
    states = States(settings, clock=lambda: now[0])
    for number in range(10):
        states.put(*wire(healthy(number, departed=True)))
    mine = len(states.live())
    assert 0 < mine < 10
    now[0] += 901
    assert len(states.live()) == mine, "no client reports, so time stands still"
    for number in range(10):
        name, value, _ = wire(healthy(number + 100))
        states.put(name, value, round(now[0] * 1000))
    assert all(not state.departed for state in states.live())


def test_a_group_that_went_with_its_shard_is_forgotten() -> None:
    name, value, at = wire(group())
    number = next(n for n in (1, 2) if not installation.served(PrometheusSettings(shard=f"{n}/2"))(name))
    states = States(Settings(prometheus=PrometheusSettings(shard=f"{number}/2")), clock=lambda: NOW)
    for worker in range(20):
        states.put(*wire(consumer(instance=f"i-{worker}", group="order-workers")))
    states.put(name, value, at)
    assert not any(shown.group for shown in states.shown(states.live(), 1000, {}))
    states.put(name, None, at)
    assert all(shown.group for shown in states.shown(states.live(), 1000, {}))


ASKED = {"service": "orders-api", "instance": "web-7:31337", "client_id": "order-producer"}


def asked(exporter: Exporter, names: dict[str, str]) -> Response:
    return exporter(Request("/client", names))


def other_shard(one: dict[str, Any]) -> str:
    name = wire(one)[0]
    return next(f"{n}/4" for n in range(1, 5) if not installation.served(PrometheusSettings(shard=f"{n}/4"))(name))


@pytest.mark.parametrize("ending", ["silent for long", "its record is deleted"])
def test_a_client_that_an_alert_named_has_a_page_after_it_has_gone(ending: str) -> None:
    now = [NOW]
    states = States(Settings(), clock=lambda: now[0])
    states.put(*wire(deadlock()))
    for number in range(3):
        states.put(*wire(healthy(number)))
    if ending == "silent for long":
        now[0] += 5_000
        name, value, _ = wire(healthy(3, end_ms=NOW_MS + 5_000_000))
        states.put(name, value, NOW_MS + 5_000_000)
    else:
        states.put(wire(deadlock())[0], None, NOW_MS)
    assert not any(state.client.client_id == "order-producer" for state in states.live())
    exporter = Exporter(Settings(), states, lambda: None, clock=lambda: now[0])
    page = asked(exporter, ASKED)
    assert page.status == 200 and "select-total stayed at 10213" in str(page.body)
    assert "this is its last record" in str(page.body)
    assert asked(exporter, {**ASKED, "client_id": "unknown"}).status == 404


def test_any_shard_has_the_page_of_a_client_that_fails() -> None:
    settings = Settings(prometheus=PrometheusSettings(shard=other_shard(deadlock())))
    states = States(settings, clock=lambda: NOW)
    states.put(*wire(deadlock()))
    exporter = Exporter(settings, states, lambda: None, clock=lambda: NOW)
    page = asked(exporter, ASKED)
    assert (
        page.status == 200
        and "select-total stayed at 10213" in str(page.body)
        and "serves this client" in str(page.body)
    )
    states.put(*wire(record(verdict("producer-callback-deadlock", "ok"), end_ms=NOW_MS + 10_000)))
    assert "select-total" not in str(asked(exporter, ASKED).body), "its newest record, also once it is well"


def test_a_shard_leads_on_to_the_one_that_serves_the_client() -> None:
    number = owner_of(deadlock())
    links = LinkSettings(status_page="https://health-{cluster}-{shard}.example.org/")
    settings = Settings(
        monitor=MonitorSettings(cluster="eu"), prometheus=PrometheusSettings(shard=other_shard(deadlock())), links=links
    )
    led = asked(Exporter(settings, States(settings), lambda: None), ASKED)
    address = f"https://health-eu-{number}.example.org/client"
    wanted = f"{address}?service=orders-api&instance=web-7%3A31337&client_id=order-producer"
    assert (led.status, led.headers["Location"]) == (302, wanted)


def owner_of(one: dict[str, Any]) -> int:
    return next(n for n in range(1, 5) if installation.served(PrometheusSettings(shard=f"{n}/4"))(wire(one)[0]))


def test_links_of_alerts_and_dashboards_lead_to_the_status_page_of_the_cluster() -> None:
    settings = Settings(links=LinkSettings(status_page="https://health-{cluster}-{shard}.example.org"))
    alerts = rules(settings)["failure-modes.yml"]
    page = "https://health-{{ $labels.cluster | urlquery }}-1.example.org"
    assert f"Evidence: {page}/client?service=" in alerts and f'runbook_url: "{page}/runbooks/' in alerts
    text = json.dumps(boards(settings)["overview"])
    assert "https://health-${__data.fields.cluster:percentencode}-1.example.org/client?service=" in text
    assert not re.search(r"(?<![${])\{cluster\}", text)


def test_a_service_has_a_bounded_number_of_versions_and_no_client_is_left_out() -> None:
    records = [healthy(number, instance=f"bill-{number}:77") for number in range(60)]
    for number, one in enumerate(records):
        one["client"]["version"] = "3.9.1" if number < 10 else f"build-{number}"
    lines = of("kafka_client_service_version_clients", served(*records))
    assert len(lines) == VERSIONS + 1
    assert '{service="billing",kind="producer",library="java",version="3.9.1",status="ok"} 10' in lines
    assert '{service="billing",kind="producer",library="",version="other",status="ok"} 31' in lines
    assert sum(int(line.rpartition(" ")[2]) for line in lines) == 60
