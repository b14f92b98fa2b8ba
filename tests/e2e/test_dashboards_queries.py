"""Run every query of the dashboards in a real Prometheus that scrapes a fleet."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
import threading
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import generate_latest

from clienthealth.configuration.installation import dashboard_uid, fixed_labels
from clienthealth.modes import modes
from clienthealth.settings import MonitorSettings, PrometheusSettings, Settings
from clienthealth.spark.self_monitoring import QUERY, SelfMetrics
from clienthealth.spark.stepping import Summary
from clienthealth_exporters.alerts.build import write
from clienthealth_exporters.prometheus.exporter import Exporter
from clienthealth_exporters.prometheus.series import CLIENT
from clienthealth_exporters.prometheus.states import States
from dashboards.build import boards
from tests.e2e.test_alert_delivery import PATIENCE_SECONDS, free_address, now_ms, started
from tests.support.alert_rules import ROOT
from tests.support.dashboard_reading import Board, label_values, panels
from tests.support.health_records import deadlock, group, healthy, record, verdict, wire
from tests.support.waiting import WAIT_SECONDS, eventually

PROMETHEUS = shutil.which("prometheus")
pytestmark = [pytest.mark.long, pytest.mark.skipif(PROMETHEUS is None, reason="prometheus is not installed")]

BOARDS = boards()
INSTALLATION = Settings(monitor=MonitorSettings(cluster="eu"), prometheus=PrometheusSettings(labels={"env": "prod"}))
ALL: Mapping[str, str] = {
    "cluster": ".*",
    "env": ".*",
    "service": ".*",
    "host": ".*",
    "instance": ".*",
    "client_id": ".*",
    "topic": ".+",
    "group": ".+",
}
SECOND = {
    "$__rate_interval": "10s",
    "[$__range:1m]": "[60s:1s]",
    "[$__range:$__interval]": "[60s:1s]",
    "$__range": "60s",
}
PANELS = [
    (name, panel["id"], panel["title"])
    for name, board in BOARDS.items()
    for panel in panels(board)
    if "targets" in panel
]

EMPTY_WHEN_HEALTHY = {
    "Authentications refused",
    "Changes of verdicts",
    "Clocks that are wrong",
    "Failures over time",
    "Files of owners",
    "Held back by quotas",
    "Input lost before the monitor read it",
    "Rebalances per minute",
    "Records given up, dropped, sent again",
    "Records rejected, by reason",
    "Series left out",
    "Share of records rejected",
    "Time until the buffer is full",
    "Unhealthy clients by failure mode",
    "Unhealthy clients by service",
    "Unhealthy now",
    "Unread share of the retained records",
    "Verdict latency",
    "Verdict latency, median",
    "Verdict over time",
}


def test_listed_panels_exist() -> None:
    assert {title for _, _, title in PANELS} >= EMPTY_WHEN_HEALTHY


class Prometheus:
    def __init__(self, address: str) -> None:
        self.url = f"http://{address}/api/v1"

    def series(self, expr: str, instant: bool = True) -> list[dict[str, Any]]:
        end = now_ms() / 1000
        asked = {"time": end} if instant else {"start": end - 30, "end": end, "step": 1}
        result = self._get("query" if instant else "query_range", {"query": expr, **asked})["result"]
        return [one for one in result if any(value != "NaN" for _, value in one.get("values", [one.get("value")]))]

    def label_values(self, selector: str, label: str) -> list[str]:
        values: list[str] = self._get(f"label/{label}/values", {"match[]": selector})
        return values

    def _get(self, path: str, asked: Mapping[str, Any]) -> Any:
        address = f"{self.url}/{path}?{urllib.parse.urlencode(asked)}"
        with urllib.request.urlopen(address, timeout=WAIT_SECONDS) as answer:
            return json.load(answer)["data"]


def chosen(board: Board, text: str, choice: Mapping[str, str]) -> str:
    constants = {v["name"]: v["query"] for v in board["templating"]["list"] if v["type"] == "constant"}
    for name, value in SECOND.items():
        text = text.replace(name, value)
    for name, value in {**ALL, **constants, **choice}.items():
        text = re.sub(rf"\${name}\b", lambda _, value=value: value, text)  # type: ignore[misc]
    assert "$" not in text, text
    return text


def empty(prometheus: Prometheus, board: Board, choice: Mapping[str, str] | None = None) -> set[str]:
    return {
        panel["title"]
        for panel in panels(board)
        for target in panel.get("targets", [])
        if not prometheus.series(chosen(board, target["expr"], choice or {}), target.get("instant", False))
    }


DETAILS: Mapping[str, Mapping[str, Any]] = {
    "send-blocked-on-metadata": {"cause": "topic-missing", "blocked_threads": 7},
    "producer-not-closed": {"cause": "killed", "lost_bytes": [0, 48_000], "lost_records": [0, 120]},
}


def sick() -> list[dict[str, Any]]:
    end = now_ms()
    indicators = deadlock()["indicators"]
    indicators["buffer"] |= {"seconds_to_full": 40.0}
    indicators["clock"] = {"skew_seconds": 240.0}
    indicators |= traffic(rate=3.0, seconds=0.4)["producer"]
    for name in ("callback_seconds", "queue_time_seconds", "request_latency_seconds"):
        indicators[name] = {"avg": 0.2, "max": 0.9, "p99": 0.8, "source": "measured"}
    queues = {"queues": [{"topic": "orders", "used_ratio": 1.0, "records": None}, {"topic": "slow", "used_ratio": 0.0}]}
    polling = {"last_poll_age_seconds": 3.0, "poll_idle_ratio": 0.4, **traffic(rate=0.05, seconds=2.0)["consumer"]}
    records = [deadlock(end_ms=end), *fit(end)]
    for mode in modes().values():
        if mode.id == "producer-callback-deadlock":
            continue
        kind = min(mode.kinds & {"producer", "consumer", "legacy-consumer"})
        others = [verdict(m.id, "unknown", reason="x") for m in modes().values() if m is not mode and kind in m.kinds]
        more = indicators if kind == "producer" else queues | (polling if kind == "consumer" else {})
        names = {"service": "shop", "host": "", "instance": f"pod-{mode.id}", "client_id": mode.id}
        records.append(
            record(
                verdict(mode.id, "confirmed", detail=DETAILS.get(mode.id, {})),
                *others,
                kind=kind,
                indicators=more,
                worst="confirmed",
                end_ms=end,
                **names,
            )
        )
    records[0]["indicators"] = indicators
    records.append(
        record(verdict("producer-not-closed", "suspected", since=None), client_id="gone", departed=True, end_ms=end)
    )
    return [*records, group("late", status="STALL", end_ms=end)]


def traffic(rate: float, seconds: float) -> dict[str, dict[str, Any]]:
    return {
        "producer": {
            "record_error_rate": rate,
            "record_retry_rate": rate,
            "batch_size_bytes": 16_000.0,
            "compression_ratio": 0.4,
            "failed_authentication_rate": rate,
            "record_send_rate": 250.0,
            "connections": 3.0,
            "slowest_broker": {"id": 2.0, "latency_seconds": 0.01 + seconds},
            "throttle_seconds": seconds,
            "select_rate": 0.0 if rate else 12.0,
            "undelivered_seconds": 40.0 * seconds,
            "metadata_age_seconds": 20.0 + 1000 * seconds,
        },
        "consumer": {
            "last_heartbeat_age_seconds": 1.0 + 20 * seconds,
            "topic_rates": [
                {"topic": "orders", "consumed_rate": 50.0},
                {"topic": "audit", "consumed_rate": 0.0 if rate else 30.0},
            ],
            "rebalance_rate": rate,
            "rebalance_seconds": 0.1 + seconds,
            "commit_latency_seconds": {"avg": 0.01, "max": 0.02 + seconds},
            "records_consumed_rate": 80.0,
            "failed_authentication_rate": rate,
            "connections": 4.0,
            "throttle_seconds": seconds,
        },
    }


def fit(end: int | None = None) -> list[dict[str, Any]]:
    end = end or now_ms()
    indicators = healthy()["indicators"]
    for name in ("callback_seconds", "queue_time_seconds", "request_latency_seconds"):
        indicators[name] = {"avg": 0.002, "max": 0.009, "p99": 0.008, "source": "measured"}
    indicators |= traffic(rate=0.0, seconds=0.0)["producer"]
    kinds = {kind for mode in modes().values() for kind in mode.kinds}
    fine = {kind: [verdict(mode.id, "ok") for mode in modes().values() if kind in mode.kinds] for kind in kinds}
    consumer = {
        "queues": [{"topic": "orders", "used_ratio": 0.1, "records": 10}],
        "last_poll_age_seconds": 0.2,
        "poll_idle_ratio": 0.9,
        **traffic(rate=0.0, seconds=0.0)["consumer"],
    }
    names = {"service": "billing", "host": "bill-1", "instance": "bill-1:77"}
    groups = group("fine", cluster="prod-us", end_ms=end)
    for row in groups["indicators"]["lag"]:
        row["start_offset"] = 0
    return [
        record(*fine["producer"], kind="producer", indicators=indicators, end_ms=end, client_id="invoices", **names),
        record(*fine["consumer"], kind="consumer", indicators=consumer, end_ms=end, client_id="reader", **names),
        record(
            *fine["legacy-consumer"], kind="legacy-consumer", indicators=consumer, end_ms=end, client_id="old", **names
        ),
        groups,
    ]


class Monitor:
    def __init__(self, busy: bool) -> None:
        self._metrics, self._busy = SelfMetrics(), busy
        self._metrics.gauges["query_up"].labels(QUERY).set(1)

    def page(self) -> str:
        metrics = self._metrics
        progress: dict[str, Any] = {"name": QUERY, "durationMs": {"triggerExecution": 1200}}
        progress["sources"] = [
            {"latestOffset": {"client-metrics": {"0": 90}}, "endOffset": {"client-metrics": {"0": 80}}}
        ]
        metrics.progressed(progress)
        summary = Summary(bucket=0, clients=40, late=int(self._busy))
        if self._busy:
            summary.changes = [("producer-callback-deadlock", "opened", 1)]
            summary.onsets = [now_ms() - 45_000]
        metrics.stepped([summary], now_ms() / 1000)
        if self._busy:
            metrics.counted([counted("malformed-json")])
            metrics.counters["lost_records"].labels("client-metrics").inc(5)
            metrics.counters["recreated_partitions"].labels("client-metrics").inc()
        metrics.counted([counted(None)])
        return generate_latest(metrics.labelled(fixed_labels(INSTALLATION))).decode()


def counted(reason: str | None) -> Any:
    return SimpleNamespace(topic="client-metrics", reason=reason, records=5, newest_ms=now_ms(), groups_newest_ms=0)


@contextmanager
def serving(page: Callable[[], str | bytes]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = page()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            if isinstance(body, bytes):
                self.send_header("Content-Encoding", "gzip")
            self.end_headers()
            self.wfile.write(body if isinstance(body, bytes) else body.encode())

        def log_message(self, format: str, *args: object) -> None:
            return None

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def configured(folder: Path, replaced: Mapping[str, str]) -> Path:
    config = (ROOT / "deploy/prometheus/prometheus.yml").read_text("utf-8")
    for ours, here in replaced.items():
        assert ours in config
        config = config.replace(ours, here)
    file = folder / "prometheus.yml"
    file.write_text(config, "utf-8")
    return file


@contextmanager
def watching(
    folder: Path,
    fleet: Iterable[Mapping[str, Any]],
    busy: bool,
    interval_seconds: int = 1,
    clusters: Sequence[str] = ("eu",),
    others: Sequence[Callable[[], str]] = (),
) -> Iterator[Prometheus]:
    assert PROMETHEUS
    records = [(name, value) for name, value, _ in (wire(dict(one)) for one in fleet)]
    texts = [b"".join(_exporter(cluster, records).metrics()).decode() for cluster in clusters]
    pages: list[Callable[[], str]] = [*(partial(str, text) for text in texts), *others]
    with ExitStack() as stack:
        clients = ", ".join([stack.enter_context(serving(page)) for page in pages])
        monitor = stack.enter_context(serving(Monitor(busy).page))
        write(folder / "written", Settings(), dry_run=False)
        (folder / "alerts").mkdir()
        shutil.copytree(folder / "written/rules", folder / "alerts/rules")
        for path in (folder / "alerts").rglob("*.yml"):
            text = re.sub(r'\b(for|keep_firing_for): "?\w+"?', r"\1: 1s", path.read_text("utf-8"))
            path.write_text(re.sub(r"^    interval: .*\n", "", text, flags=re.MULTILINE), "utf-8")
        here = {
            " 5s": f" {interval_seconds}s",
            " 15s": f" {interval_seconds}s",
            "exporter:9309": clients,
            "monitor:9308": monitor,
            "alertmanager:9093": "127.0.0.1:9",
        }
        address = free_address()
        command = [PROMETHEUS, f"--config.file={configured(folder, here)}", f"--storage.tsdb.path={folder}/tsdb"]
        command += [f"--web.listen-address={address}", "--log.level=error"]
        stack.enter_context(started(command, folder / "log", address))
        prometheus = Prometheus(address)
        settled = f"count_over_time(service:kafka_client_judged:count[{20 * interval_seconds}s]) > 5"
        patience = PATIENCE_SECONDS * interval_seconds
        eventually(lambda: prometheus.series(settled), "several evaluations of the rules", patience)
        if busy:
            eventually(lambda: prometheus.series('ALERTS{alertstate="firing",severity="critical"}'), "alerts", patience)
        yield prometheus


def _exporter(cluster: str, records: Iterable[tuple[bytes, bytes]]) -> Exporter:
    settings = dataclasses.replace(INSTALLATION, monitor=MonitorSettings(cluster=cluster))
    states = States(settings)
    for name, value in records:
        states.put(name, value, now_ms())
    return Exporter(settings, states, lambda: None)


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    with watching(tmp_path_factory.mktemp("failing"), sick(), busy=True) as prometheus:
        yield prometheus


@pytest.fixture(scope="module")
def fine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    with watching(tmp_path_factory.mktemp("fine"), fit(), busy=False) as prometheus:
        yield prometheus


@pytest.mark.parametrize("name", BOARDS)
def test_every_panel_shows_something_while_clients_fail(name: str, failing: Prometheus) -> None:
    assert empty(failing, BOARDS[name]) <= {"Series left out", "Files of owners"}


def shows_only_failing(panel: Mapping[str, Any]) -> bool:
    exprs = [target["expr"] for target in panel.get("targets", [])]
    return panel["type"] != "stat" and any("kafka_client_failure_mode{mode=" in expr for expr in exprs)


@pytest.mark.parametrize("name", BOARDS)
def test_only_listed_panels_are_empty_while_all_is_well(name: str, fine: Prometheus) -> None:
    listed = {title for board, _, title in PANELS if board == name} & EMPTY_WHEN_HEALTHY
    listed |= {panel["title"] for panel in panels(BOARDS[name]) if shows_only_failing(panel)}
    assert empty(fine, BOARDS[name]) <= listed
    assert not (listed - empty(fine, BOARDS[name])), "listed, but not empty"


@pytest.mark.parametrize("mode", modes())
def test_the_dashboard_that_a_page_links_to_shows_that_client(mode: str, failing: Prometheus) -> None:
    (alert,) = failing.series(f'ALERTS{{alertstate="firing", severity="critical", mode="{mode}"}}')
    (name,) = (name for name, board in BOARDS.items() if board["uid"] == dashboard_uid(f"mode-{mode}"))
    choice = {label: alert["metric"].get(label, "") for label in CLIENT}
    board = BOARDS[name]
    (row,) = (p for p in panels(board) if p["title"] == "Unhealthy now")
    (client,) = failing.series(chosen(board, row["targets"][0]["expr"], choice))
    assert (client["metric"]["mode"], client["metric"]["status"]) == (mode, "confirmed")
    assert float(client["value"][1]) > 1e12, "a moment in milliseconds"
    assert empty(failing, board, choice).isdisjoint({"Confirmed", "Suspected", "Verdict over time", "Is it reporting"})


def test_two_services_at_once(failing: Prometheus) -> None:
    assert empty(failing, BOARDS["overview"], {"service": "(billing|shop)"}) == set()


@pytest.mark.parametrize("name", BOARDS)
def test_variables_have_values(name: str, failing: Prometheus) -> None:
    board = BOARDS[name]
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            selector, label = label_values(variable)
            assert failing.label_values(chosen(board, selector, {}), label), variable["name"]


@pytest.mark.parametrize("name", BOARDS)
def test_annotations(name: str, failing: Prometheus) -> None:
    board = BOARDS[name]
    by_name = {
        annotation["name"]: failing.series(chosen(board, annotation["expr"], {}), instant=False)
        for annotation in board["annotations"]["list"]
        if "expr" in annotation
    }
    assert by_name.pop("New versions", []) == []
    assert by_name.keys() == {"Critical alerts", "Warnings"}
    assert all(by_name.values())


def test_all_failing_clients_are_listed_even_with_unknown_onset(failing: Prometheus) -> None:
    board = BOARDS["overview"]
    (table,) = (p for p in panels(board) if p["title"] == "Unhealthy now")
    rows = failing.series(chosen(board, table["targets"][0]["expr"], {}))
    assert {row["metric"]["client_id"]: float(row["value"][1]) > 0 for row in rows} == {
        "order-producer": True,
        "gone": False,
        **{mode: True for mode in modes() if mode != "producer-callback-deadlock"},
    }


def test_numbers_are_right(failing: Prometheus) -> None:
    board = BOARDS["overview"]
    shown = {
        panel["title"]: failing.series(chosen(board, panel["targets"][0]["expr"], {}))[0]["value"][1]
        for panel in panels(board)
        if panel["type"] == "stat"
    }
    assert (shown["Reporting"], shown["Confirmed"], shown["Suspected"], shown["Not judged"]) == ("10", "7", "1", "0")


def test_a_version_has_the_share_of_its_producers_that_is_unhealthy(failing: Prometheus, fine: Prometheus) -> None:
    board = BOARDS["producers"]
    (table,) = (p for p in panels(board) if p["title"] == "Libraries and versions")

    def shown(prometheus: Prometheus) -> list[list[float]]:
        columns = (prometheus.series(chosen(board, target["expr"], {})) for target in table["targets"])
        return [[float(row["value"][1]) for row in column] for column in columns]

    assert shown(failing) == [[5], [pytest.approx(4 / 5)]]
    assert shown(fine) == [[1], [0]]


def test_weekly_numbers_are_those_of_the_definition(failing: Prometheus) -> None:
    board = BOARDS["review"]
    value = {
        panel["title"]: float(failing.series(chosen(board, panel["targets"][0]["expr"], {}))[0]["value"][1])
        for panel in panels(board)
        if panel["type"] == "stat"
    }
    assert value["Healthy client-minutes"] == pytest.approx(3 / 10)
    assert value["Target"] == 0.995
    assert value["Error budget spent"] == pytest.approx((7 / 10) / 0.005)
