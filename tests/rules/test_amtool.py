"""Check Alertmanager's configuration, routes and messages with amtool."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest

from deploy.demo.alerting import alertmanager_config
from deploy.demo.processes import free_port
from deploy.reference.alerts import BEGIN, END, PLACEHOLDERS
from tests.laws.pages import pages
from tests.support.alert_rules import ROOT, Rule, alerts
from tests.support.known_metrics import known_labels
from tests.support.promql import surviving
from tests.support.waiting import eventually

pytestmark = pytest.mark.skipif(shutil.which("amtool") is None, reason="amtool is not installed")
RUNBOOKS = {Path(path).stem: text for path, text in pages().items() if path.startswith("alerts/runbooks/")}
CONFIG = ROOT / "alerts/alertmanager.yml"


@pytest.mark.parametrize("config", ["alertmanager.yml", "receivers.yml", "receivers-teams.yml", "local webhook"])
def test_config_is_valid(config: str, tmp_path: Path) -> None:
    path = CONFIG.with_name(config)
    if config == "local webhook":
        path = tmp_path / "alertmanager.yml"
        path.write_text(alertmanager_config("http://127.0.0.1:9/hook", group_wait="1s"), "utf-8")
    done = subprocess.run(["amtool", "check-config", str(path)], capture_output=True, text=True, check=False)
    if config == "receivers-teams.yml" and "msteamsv2_configs not found" in done.stdout:
        pytest.skip("this amtool is older than 0.28")
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def alertmanager(tools: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder, port = tmp_path_factory.mktemp("alertmanager"), free_port()
    program = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")
    assert program is not None
    (folder / "alertmanager.yml").write_text(alertmanager_config("http://127.0.0.1:9/hook", group_wait="1s"), "utf-8")
    options = ["--config.file=alertmanager.yml", "--storage.path=data", "--cluster.listen-address="]
    with (folder / "out").open("wb") as out:
        listening = [program, *options, f"--web.listen-address=127.0.0.1:{port}"]
        with subprocess.Popen(listening, cwd=folder, stdout=out, stderr=subprocess.STDOUT) as process:
            eventually(lambda: _answers(f"http://127.0.0.1:{port}/-/ready"))
            yield f"http://127.0.0.1:{port}"
            process.terminate()


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


@pytest.mark.parametrize("name", sorted(RUNBOOKS))
def test_the_silence_of_a_runbook_covers_one_cluster(name: str, alertmanager: str) -> None:
    commands = re.findall(r"^amtool silence add .*$", RUNBOOKS[name], re.MULTILINE)
    head = RUNBOOKS[name].partition(BEGIN)[2].partition(END)[0]
    on_page = {*re.findall(r"\w+", " ".join(re.findall(r"^\|.*$", head, re.MULTILINE)))}
    assert commands
    for command in commands:
        named = re.findall(r"alertname=~?\"([^\"]*)\"", command)[0].split("|")
        page_rules = [rule for rule in alerts() if rule.name in on_page]
        about = [rule for rule in page_rules if rule.name in named or named == ["ALERT"]]
        assert {rule.name for rule in about} == set(named) or named == ["ALERT"]
        for rule in about:
            ours = {**_labels(rule), "cluster": f"{name}-{rule}"}
            _post(f"{alertmanager}/api/v2/alerts", [{"labels": ours}, {"labels": {**ours, "cluster": "other"}}])
            made = command.replace('cluster="C"', f'cluster="{name}-{rule}"').replace('"ALERT"', f'"{rule.name}"')
            added = [*shlex.split(made), f"--alertmanager.url={alertmanager}", "--author=test"]
            subprocess.run(added, capture_output=True, text=True, check=True)
            eventually(partial(_silenced, alertmanager, ours), f"{rule} of this cluster is silenced")
            assert not _silenced(alertmanager, {**ours, "cluster": "other"})


def _labels(rule: Rule) -> dict[str, str]:
    names = {"cluster", "env", *surviving(rule.expr, known_labels())} - {"quiet"}
    static = {label: value for label, value in rule.labels.items() if value}
    return {label: PLACEHOLDERS.get(label, label.upper()) for label in names} | static | {"alertname": rule.name}


def _post(address: str, body: object) -> None:
    request = urllib.request.Request(address, json.dumps(body).encode(), {"Content-Type": "application/json"})
    urllib.request.urlopen(request, timeout=30).close()


def _silenced(alertmanager: str, labels: Mapping[str, str]) -> bool:
    with urllib.request.urlopen(f"{alertmanager}/api/v2/alerts", timeout=30) as answer:
        known = [alert for alert in json.load(answer) if alert["labels"] == labels]
    return bool(known and known[0]["status"]["silencedBy"])


@pytest.mark.parametrize("rule", alerts(), ids=str)
def test_route_of_every_alert(rule: Rule) -> None:
    wanted = {"critical": "pager", "warning": "tickets", "info": "nobody"}[rule.labels["severity"]]
    if rule.name == "KafkaClientHealthWatchdog":
        wanted = "heartbeat"
    assert _route({"alertname": rule.name, **rule.labels}) == wanted


def test_dry_run_notifies_nothing() -> None:
    labels = {"alertname": "KafkaClientProducerCallbackDeadlock", "mode": "producer-callback-deadlock"}
    assert _route({**labels, "severity": "info"}) == "nobody"


@pytest.mark.parametrize(
    ("labels", "receiver"),
    [
        ({"severity": "critical", "team": "payments", "pager": "payments-oncall"}, "payments-oncall"),
        ({"severity": "warning", "team": "payments", "pager": "payments-oncall"}, "payments-tickets"),
        ({"severity": "critical", "team": "payments"}, "pager"),
        ({"severity": "critical", "team": "unheard-of", "pager": "unheard-of"}, "pager"),
        ({"severity": "warning", "team": "unheard-of"}, "tickets"),
        ({"severity": "warning", "team": "payments", "alertname": "KafkaClientErrorBudgetBurn"}, "payments-tickets"),
        ({"severity": "info", "team": "payments", "pager": "payments-oncall"}, "nobody"),
        ({"severity": "warning", "team": "payments", "alertname": "KafkaClientClockWrong"}, "tickets"),
        ({"severity": "info", "alertname": "KafkaClientClockWrong"}, "nobody"),
    ],
)
def test_what_is_owned_goes_to_its_owner_and_all_else_to_everybody(labels: dict[str, str], receiver: str) -> None:
    assert _route({"alertname": "KafkaClientDeliveryStalled", **labels}) == receiver


def test_what_is_not_ours_becomes_a_ticket() -> None:
    assert _route({"alertname": "SomethingElse"}) == "tickets"


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("title", ["orders: since 21:04 UTC: A summary. · KafkaClientX"]),
        ("text", ["FIRING: A summary.", "What to do.", "2026-11-20 21:04:00 UTC", "https://r/x", "https://d/x"]),
        ("slack", ["*A summary.*", "<https://r/x|Runbook>", "<https://d/x|Dashboard>"]),
        ("html", ["<strong>A summary.</strong>", 'href="https://r/x"', "&lt;b&gt; What to do.", "#c4162a"]),
        ("colour", ["#c4162a"]),
    ],
)
def test_notifications_contain_failure_onset_and_advice(name: str, parts: list[str], tmp_path: Path) -> None:
    labels = {"alertname": "KafkaClientX", "severity": "critical", "service": "orders"}
    annotations = {"summary": "A summary.", "description": "<b> What to do."}
    annotations |= {"runbook_url": "https://r/x", "dashboard_url": "https://d/x"}
    alert = {"status": "firing", "labels": labels, "annotations": annotations, "startsAt": "2026-11-20T21:04:00Z"}
    data = {"receiver": "tickets", "status": "firing", "alerts": [alert], "commonLabels": labels}
    shown = _rendered(name, data, tmp_path)
    for part in parts:
        assert part in shown


SENDING_NOTHING = {"effect": "producers sending nothing", "clients": "000012"}


@pytest.mark.parametrize(
    ("alerts", "status", "annotations", "title"),
    [
        (3, "firing", SENDING_NOTHING, "orders: 3 of 12 producers sending nothing, since 21:04 UTC · X"),
        (3, "resolved", SENDING_NOTHING, "Over: orders: 3 of 12 producers sending nothing, 21:04 to 21:18 UTC · X"),
        (12, "firing", SENDING_NOTHING, "orders: 12 of 12 producers sending nothing, since 21:04 UTC · X"),
        (13, "firing", SENDING_NOTHING, "orders: 13 producers sending nothing, since 21:04 UTC · X"),
        (
            3,
            "firing",
            {**SENDING_NOTHING, "clients": "000000"},
            "orders: 3 producers sending nothing, since 21:04 UTC · X",
        ),
        (1, "firing", {}, "orders: 1 client, since 21:04 UTC: A summary. · X"),
        (2, "resolved", {}, "Over: orders: 2 clients, 21:04 to 21:18 UTC: A summary. · X"),
    ],
)
def test_titles_begin_with_owner_number_and_effect(
    alerts: int, status: str, annotations: dict[str, str], title: str, tmp_path: Path
) -> None:
    labels = {"alertname": "X", "service": "orders"}
    times = [("2026-11-20T21:09:00Z", "2026-11-20T21:18:00Z"), ("2026-11-20T21:04:00Z", "2026-11-20T21:11:00Z")]
    listed = [
        {
            **{"status": status, "labels": {**labels, "client_id": f"{number}"}, "startsAt": times[number % 2][0]},
            **{"endsAt": times[number % 2][1], "annotations": {"summary": "A summary.", **annotations}},
        }
        for number in range(1, alerts + 1)
    ]
    data = {"receiver": "pager", "status": status, "alerts": listed, "commonLabels": labels}
    assert _rendered("title", data, tmp_path).strip() == title


def _rendered(name: str, data: object, folder: Path) -> str:
    (folder / "data.json").write_text(json.dumps(data), "utf-8")
    kind = ["--template.type=html"] if name == "html" else []
    done = subprocess.run(
        [
            *("amtool", "template", "render", *kind, f"--template.glob={ROOT}/alerts/templates/*.tmpl"),
            *(f"--template.data={folder}/data.json", f'--template.text={{{{ template "clienthealth.{name}" . }}}}'),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _route(labels: Mapping[str, str]) -> str:
    command = ["amtool", "config", "routes", "test", f"--config.file={CONFIG}"]
    command += [f"{name}={value}" for name, value in labels.items()]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
