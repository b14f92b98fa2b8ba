"""Metrics pasted from a recording get the verdict of the recording."""

from __future__ import annotations

import gzip
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import pytest

from clienthealth.diagnose.examine import examine
from clienthealth.settings import Settings
from tests.support.attachments import log, statuses, worst
from tests.support.recorded import RECORDINGS
from tests.support.rows import long_after

CALLBACK = "producer-callback-deadlock"
_NAME = re.compile(r"(?P<group>[\w-]+-metrics)/(?P<name>[^{}]+)\{(?P<tags>.*)\}")
Row = tuple[int, Mapping[tuple[str, str, str], float]]


@cache
def plain(recording: str) -> str:
    return worst(statuses(RECORDINGS / recording / "metrics.jsonl.gz")[0], CALLBACK)


@cache
def rows(recording: str) -> list[Row]:
    """Return (time in epoch ms, values by (group, name, tags)) of each sample."""
    listed: list[Row] = []
    for line in gzip.decompress((RECORDINGS / recording / "metrics.jsonl.gz").read_bytes()).splitlines():
        document = json.loads(line)
        named = ((_NAME.fullmatch(key), value) for key, value in document["metrics"].items())
        values = {(m["group"], m["name"], m["tags"]): v for m, v in named if m and isinstance(v, int | float)}
        listed.append((document["ts"], values))
    return listed


def _labels(tags: str) -> str:
    return ",".join(f'{k.replace("-", "_")}="{v}"' for k, _, v in (tag.partition("=") for tag in tags.split(",")))


def _samples(values: Mapping[tuple[str, str, str], float], ts: str = "") -> Iterator[str]:
    yield "# TYPE jvm_threads_current gauge"
    yield "jvm_threads_current 31.0"
    for (group, name, tags), value in values.items():
        metric = f"kafka_{group.split('-')[0]}_{group}_{name}".replace("-", "_").replace(".", "_")
        yield f"{metric}{{{_labels(tags)},}} {value!r}{ts}"


def timestamped(readings: list[Row]) -> str:
    return "".join(line + "\n" for ts, values in readings for line in _samples(values, f" {ts}"))


def dated(readings: list[Row]) -> str:
    return "".join(
        f"{datetime.fromtimestamp(ts / 1000, UTC):%a %b %d %H:%M:%S UTC %Y}\n" + "\n".join(_samples(values)) + "\n"
        for ts, values in readings
    )


def jmxtool(readings: list[Row]) -> str:
    keys = list(readings[0][1])
    head = [f'"kafka.{g.split("-")[0]}:type={g},{tags}:{name}"' for g, name, tags in keys]
    lines = [",".join(['"time"', *head])]
    lines += [",".join([str(ts), *(str(values.get(key, "NaN")) for key in keys)]) for ts, values in readings]
    return "\n".join(lines) + "\n"


def printed(readings: list[Row]) -> str:
    blocks = []
    for ts, values in readings:
        lines = [f"{g}:{name}:{{{tags}}}".ljust(90) + f" : {value:.3f}" for (g, name, tags), value in values.items()]
        when = f"{datetime.fromtimestamp(ts / 1000, UTC):%Y-%m-%d %H:%M:%S}"
        blocks.append("\n".join([when, "Metric Name".ljust(90) + "   Value", *lines]))
    return "\n".join(blocks) + "\n"


def jmxterm(readings: list[Row]) -> str:
    lines = []
    for ts, values in readings:
        lines.append(f"# {datetime.fromtimestamp(ts / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}")
        last = ""
        for (group, name, tags), value in sorted(values.items(), key=lambda item: (item[0][0], item[0][2])):
            mbean = f"kafka.{group.split('-')[0]}:type={group},{tags}"
            lines += [f"#mbean = {mbean}:"] if mbean != last else []
            lines.append(f"{name} = {value};")
            last = mbean
    return "\n".join(lines) + "\n"


def kafka_python(readings: list[Row]) -> str:
    lines = []
    for ts, values in readings:
        groups: dict[str, dict[str, float]] = {"kafka-metrics-count": {"count": 56.0}}
        for (group, name, tags), value in values.items():
            if "node-id" not in tags and "topic=" not in tags:
                groups.setdefault(group, {})[name] = value
        groups.setdefault("producer-metrics", {})["batch-size-max"] = float("-inf")
        when = f"{datetime.fromtimestamp(ts / 1000, UTC):%Y-%m-%d %H:%M:%S},{ts % 1000:03}"
        lines.append(f"{when} INFO root: metrics {groups}")
    return "\n".join(lines) + "\n"


def jolokia(readings: list[Row], indent: int | None = None) -> str:
    answers = []
    for ts, values in readings:
        mbeans: dict[str, dict[str, float]] = {}
        for (group, name, tags), value in values.items():
            mbeans.setdefault(f"kafka.{group.split('-')[0]}:type={group},{tags}", {})[name] = value
        answer = [
            {"request": {"type": "read", "mbean": mbean}, "value": value, "timestamp": ts // 1000, "status": 200}
            for mbean, value in mbeans.items()
        ]
        answers.append(json.dumps(answer, indent=indent))
    return "\n".join(answers) + "\n"


def jolokia_printed(readings: list[Row]) -> str:
    return f"$ curl -s localhost:8778/jolokia/?ifModifiedSince=0\n{jolokia(readings, 2)}$\n"


def _series(readings: list[Row]) -> dict[str, list[tuple[int, float]]]:
    by_name: dict[str, list[tuple[int, float]]] = {}
    for ts, values in readings:
        for line in _samples(values):
            name, _, value = line.rpartition(" ")
            if name.startswith("kafka_"):
                by_name.setdefault(name.replace(",}", ',job="orders"}'), []).append((ts, float(value)))
    return by_name


def _metric(series: str) -> dict[str, str]:
    return {"__name__": series.partition("{")[0]} | dict(re.findall(r'(\w+)="([^"]*)"', series))


def query_range(readings: list[Row]) -> str:
    result = [
        {"metric": _metric(name), "values": [[ts / 1000, str(value)] for ts, value in points]}
        for name, points in _series(readings).items()
    ]
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}})


def victoria_metrics(readings: list[Row]) -> str:
    return "".join(
        json.dumps({"metric": _metric(name), "values": [v for _, v in points], "timestamps": [ts for ts, _ in points]})
        + "\n"
        for name, points in _series(readings).items()
    )


def grafana_csv(readings: list[Row]) -> str:
    series = _series(readings)
    head = ",".join(['"Time"', *('"' + name.replace('"', '""') + '"' for name in series)])
    lines = [head]
    for ts, _ in readings:
        cells = (next((str(value) for at, value in points if at == ts), "") for points in series.values())
        lines.append(",".join([f'"{datetime.fromtimestamp(ts / 1000, UTC):%Y-%m-%d %H:%M:%S}"', *cells]))
    return "\n".join(lines) + "\n"


def promtool(readings: list[Row]) -> str:
    return "".join(
        line.replace(",}", "}").replace("} ", "} => ") + f" @[{ts / 1000}]\n"
        for ts, values in readings
        for line in _samples(values)
        if line.startswith("kafka_")
    )


SHAPES = (
    *(jmxterm, timestamped, dated, jmxtool, printed, kafka_python, jolokia, query_range),
    *(grafana_csv, jolokia_printed, victoria_metrics, promtool),
)


@pytest.mark.parametrize("shape", long_after(8, SHAPES))
@pytest.mark.parametrize(("recording", "status"), [("deadlock-4.1", "suspected"), ("healthy-4.1", "ok")])
def test_pasted_metrics(shape: Callable[[list[Row]], str], recording: str, status: str, tmp_path: Path) -> None:
    assert plain(recording) in (status, "confirmed")
    file = tmp_path / "pasted.txt"
    file.write_text(shape(rows(recording)))
    by_mode, inputs = statuses(file)
    assert worst(by_mode, CALLBACK) == plain(recording)
    assert inputs["pasted.txt"].timed
    assert not inputs["pasted.txt"].unread


def test_readings_without_a_time_are_never_ok(tmp_path: Path) -> None:
    file = tmp_path / "metrics.prom"
    untimed = [(0, values) for _, values in rows("healthy-4.1")]
    file.write_text("".join(line + "\n" for _, values in untimed for line in _samples(values)))
    verdicts, inputs = statuses(file)
    assert not inputs["metrics.prom"].timed
    assert {status for by_mode in verdicts.values() for status in by_mode.values()} == {"unknown"}


def scrapes(folder: Path, readings: Sequence[Row], name: str) -> Path:
    """Write a file for each scrape. `name` is the strftime format of the files' names."""
    folder.mkdir()
    for ts, values in readings:
        file = folder / datetime.fromtimestamp(ts / 1000, UTC).strftime(name)
        file.write_text("".join(line + "\n" for line in _samples(values)))
    return folder


def test_scrapes_have_the_time_in_their_names(tmp_path: Path) -> None:
    for recording, status in (("deadlock-4.1", "confirmed"), ("healthy-4.1", "ok")):
        folder = scrapes(tmp_path / recording, rows(recording)[::10], "metrics-%Y%m%dT%H%M%SZ.prom")
        (client,) = (found := examine([folder], Settings())).clients
        (verdict,) = (verdict for verdict in client[1] if verdict.mode == CALLBACK)
        assert verdict.status == status
        assert all(given.clocked for given in found.inputs)
        assert (verdict.since_ms is not None) == verdict.unhealthy


def test_the_day_in_a_name_is_not_that_of_a_log_of_many_days(tmp_path: Path) -> None:
    folder = scrapes(tmp_path / "shop", rows("deadlock-4.1")[::10], "metrics-%Y%m%dT%H%M%SZ.prom")
    first = rows("deadlock-4.1")[0][0]
    text = (
        "INFO [main] org.apache.kafka.clients.NetworkClient - [Producer clientId=order-publisher] Node -1 disconnected."
    )
    days = (datetime.fromtimestamp(first / 1000 - day * 86_400, UTC) for day in (8, 0))
    (folder / "app.log").write_text("".join(f"{day:%Y-%m-%d %H:%M:%S},000 {text}\n" for day in days))
    ((_, verdicts),) = examine([folder], Settings()).clients
    (verdict,) = (verdict for verdict in verdicts if verdict.mode == CALLBACK)
    assert verdict.since_ms is not None
    assert first <= verdict.since_ms < first + 120_000


def test_a_log_that_ends_before_the_last_scrape_shows_no_end_of_the_process(tmp_path: Path) -> None:
    half: list[Row] = [
        (ts, {key: value * 64 if key[1].startswith("buffer-") else value for key, value in values.items()})
        for ts, values in rows("back-pressure-3.9")[:60:10]
    ]
    folder = scrapes(tmp_path / "shop", half, "metrics-%Y%m%dT%H%M%SZ.prom")
    (folder / "app.log").write_text(log("back-pressure-3.9").split("2026-11-21 08:23")[0])
    by_client, _ = statuses(folder)
    assert [by_mode["producer-not-closed"] for by_mode in by_client.values()] == ["unknown"]


def test_properties_behind_a_client_id_are_no_part_of_it(tmp_path: Path) -> None:
    """The JMX exporter's pattern `client-id=(.+)><>` adds the MBean's other properties to the client id."""
    file = tmp_path / "metrics.prom"
    metrics = "kafka_producer_producer"
    file.write_text(
        f'{metrics}_metrics_record_send_total{{client_id="orders, eu",}} 12.0\n'
        f'{metrics}_node_metrics_request_latency_avg{{client_id="orders, eu, node-id=node-1",}} 3.0\n'
        f'{metrics}_topic_metrics_record_send_total{{client_id="orders, eu, topic=a, partition=0",}} 12.0\n'
    )
    by_client, _ = statuses(file)
    assert list(by_client) == ["orders, eu"]


def test_librdkafka_statistics_in_a_log(tmp_path: Path) -> None:
    stats = json.dumps(json.loads(Path("tests/formats/librdkafka_stats_producer.json").read_text()))
    file = tmp_path / "app.log"
    file.write_text(f"2026-11-20 21:02:10,164 INFO [main] app - STATS: {stats}\n")
    by_mode, inputs = statuses(file)
    assert len(by_mode) == 1
    assert inputs["app.log"].used == 1


def test_a_few_samples_are_no_wrapped_text(tmp_path: Path) -> None:
    file = tmp_path / "metrics.prom"
    file.write_text(
        "# TYPE kafka_producer_producer_metrics_record_send_total counter\n"
        'kafka_producer_producer_metrics_record_send_total{client_id="p-1",} 12.0\n'
        'kafka_producer_producer_metrics_buffer_available_bytes{client_id="p-1",} 1048576.0\n'
        'kafka_producer_producer_metrics_buffer_total_bytes{client_id="p-1",} 33554432.0\n',
        encoding="utf-8",
    )
    _, inputs = statuses(file)
    assert [(given.what, given.used) for given in inputs.values()] == [("metrics (Prometheus exposition)", 1)]


def test_a_page_without_client_samples_is_left_out_with_a_reason(tmp_path: Path) -> None:
    (tmp_path / "page.txt").write_text(
        "# HELP kafka_producer_buffer_available_bytes Bytes that are not in use\njvm_threads_live_threads 41\n"
    )
    _, inputs = statuses(tmp_path / "page.txt")
    page = inputs["page.txt"]
    assert (page.read, page.used, page.left_out) == (2, 0, {"no-metrics": 2})


def test_samples_in_a_mail_are_read_beside_its_log_lines(tmp_path: Path) -> None:
    lines = [f"2026-11-20 21:02:{second},164 INFO [main] app - taking orders" for second in range(10, 20)]
    (tmp_path / "mail.txt").write_text(
        "Since this morning orders are late. On the pod:\n\n$ curl -s localhost:9404/metrics | grep producer\n"
        'kafka_producer_producer_metrics_buffer_available_bytes{client_id="p-1",} 1048576.0\n'
        'kafka_producer_producer_metrics_buffer_total_bytes{client_id="p-1",} 33554432.0\n\nIts log:\n\n'
        + "\n".join([*lines, "2026-11-20 21:02:20,001 WARN [kafka-producer-network-thread | p-1] org.apache.kafka."])
        + "clients.NetworkClient - [Producer clientId=p-1] Connection to node 3 (b-3/10.0.0.3:9092) could not be "
        "established. Node may not be available.\n"
    )
    [(client, verdicts)] = examine([tmp_path / "mail.txt"], Settings()).clients
    assert (client.client_id, client.kind) == ("p-1", "producer")
    assert any("records wait in the buffer" in (verdict.reason or "") for verdict in verdicts)
    assert statuses(tmp_path / "mail.txt")[1]["mail.txt"].used == 2, "the reading, and the line of the client"


def _answer(second: int, metrics: Mapping[str, Mapping[str, float]]) -> str:
    request = {"mbean": "kafka.consumer:*", "type": "read"}
    found = {"value": metrics, "status": 200} if metrics else {"error": "No MBean with pattern", "status": 404}
    return json.dumps([{"request": request, "timestamp": 1_795_204_800 + second, **found}])


@pytest.mark.parametrize(("empty", "status"), [(0, "ok"), (3, "unknown")])
def test_a_connector_whose_metrics_end_before_its_jvm_does_is_not_healthy(
    empty: int, status: str, tmp_path: Path
) -> None:
    fetches = "kafka.consumer:type=FetchRequestAndResponseMetrics,name=FetchRequestRateAndTimeMs,clientId=feed"
    lines = [_answer(10 * n, {fetches: {"Count": 100 + 10 * n}}) for n in range(4)]
    lines += [_answer(10 * n, {}) for n in range(4, 4 + empty)]
    (tmp_path / "jolokia.jsonl").write_text("\n".join([*lines, ""]))
    [(client, verdicts)] = examine([tmp_path / "jolokia.jsonl"], Settings()).clients
    assert client.client_id == "feed"
    assert {verdict.mode: verdict.status for verdict in verdicts}["consumer-shutdown-loop"] == status


def test_help_of_a_metric_below_a_heading_with_a_time_is_no_log_line(tmp_path: Path) -> None:
    about = "The number of user threads blocked waiting for buffer memory to enqueue their records"
    name = "kafka_producer_producer_metrics_waiting_threads"
    scrape = f'# HELP {name} {about}\n# TYPE {name} untyped\n{name}{{client_id="p"}} 0.0\n'
    text = "".join(f"# 2026-11-29 02:39:{second}\n{scrape}" for second in (20, 25, 30))
    (tmp_path / "metrics.txt").write_text(text, encoding="utf-8")
    found = examine([tmp_path / "metrics.txt"], Settings(), io.BytesIO(b""))
    assert [one.what for one in found.inputs] == ["metrics (Prometheus exposition)"]
    assert not [verdict for _, verdicts in found.clients for verdict in verdicts if verdict.unhealthy]
