"""Ids in dashboards never change, thresholds equal those in alerts, and links work."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import promql_parser as promql
import pytest

from clienthealth.configuration.installation import UID_LENGTH
from clienthealth.model.errors import CatalogueError
from clienthealth.modes import modes
from clienthealth.settings import LinkSettings, PrometheusSettings, ReviewSettings, Settings
from clienthealth_exporters.prometheus.limits import BURNS, LIMITS
from clienthealth_exporters.prometheus.series import ALL_FAMILIES
from dashboards.build import boards
from dashboards.page import rendered
from dashboards.panels import failure_mode
from dashboards.panels.monitor import BEHIND_SECONDS, REJECTED_RATIO, STALE_SECONDS, age_of_newest
from tests.support.alert_rules import ROOT, alerts, recordings
from tests.support.dashboard_reading import BUILT_IN, panels
from tests.support.known_metrics import known_labels
from tests.support.promql import metrics, nodes

BOARDS = boards()
ALERTS = alerts()
EVIDENCE = {family.name for family in ALL_FAMILIES if family.evidence}
GOLDEN = ROOT / "tests/golden/dashboard-ids.txt"
each_board = pytest.mark.parametrize("name", BOARDS)


def test_pictures_are_small_and_shown() -> None:
    page = (ROOT / "dashboards/README.md").read_text("utf-8")
    pictures = {path.name: path.stat().st_size for path in (ROOT / "dashboards/pictures").iterdir()}
    assert set(pictures) == set(re.findall(r"\]\(pictures/([\w.-]+)\)", page)) and len(pictures) == 4
    assert max(pictures.values()) < 150_000


def test_uids_and_ids_stay_as_they_are() -> None:
    lines = [
        f"{board['uid']} {panel['id']} {panel['title']}"
        for board in BOARDS.values()
        for panel in panels(board)
        if panel["type"] != "row"
    ]
    held = GOLDEN.read_text("utf-8").splitlines()
    moved = [f"- {line}" for line in held if line not in lines] + [f"+ {line}" for line in lines if line not in held]
    assert sorted(lines) == held, "\n".join([f"lines of {GOLDEN.relative_to(ROOT)}, which is sorted, moved:", *moved])


def test_names_of_dashboards_are_unique_where_grafana_wants_them_to_be() -> None:
    for key in ("uid", "title"):
        values = [board[key] for board in BOARDS.values()]
        assert len(set(values)) == len(values)
    assert all(len(board["uid"]) <= UID_LENGTH for board in BOARDS.values())


def test_every_failure_mode_has_a_dashboard_that_describes_it() -> None:
    for mode in modes().values():
        (text,) = (p["options"]["content"] for p in panels(BOARDS[f"mode-{mode.id}"]) if p["type"] == "text")
        for sentence in (
            mode.summary,
            mode.impact,
            mode.action,
            *(confusion.looks_like for confusion in mode.confusions),
        ):
            assert sentence in text


def threshold_steps(board: dict[str, Any]) -> Iterator[tuple[str, float]]:
    for panel in panels(board):
        config = panel.get("fieldConfig", {})
        configs = [config.get("defaults", {}).get("thresholds", {"steps": []})]
        configs += [p["value"] for o in config.get("overrides", []) for p in o["properties"] if p["id"] == "thresholds"]
        yield from (
            (panel["title"], step["value"]) for one in configs for step in one["steps"] if step["value"] is not None
        )


@each_board
def test_limits_are_those_of_the_alerts(name: str) -> None:
    compared = {
        n.val for rule in ALERTS for n in nodes(promql.parse(rule.condition)) if isinstance(n, promql.NumberLiteral)
    }
    allowed = {*astuple(LIMITS), 1.0, *(burn.factor for burn in BURNS)} | compared
    for title, value in threshold_steps(BOARDS[name]):
        assert value in allowed, title


def test_limits_of_the_monitor_are_those_of_the_watchdog() -> None:
    exprs = {rule.name: rule.condition for rule in ALERTS}
    assert f"> {STALE_SECONDS}\n" in exprs["KafkaClientHealthStale"]
    assert f"> {STALE_SECONDS}\n" in exprs["KafkaClientHealthInputSilent"]
    assert f"> {BEHIND_SECONDS}\n" in exprs["KafkaClientHealthFallingBehind"]
    assert exprs["KafkaClientHealthRejectsRising"].endswith(f"> {REJECTED_RATIO}")


def test_age_of_the_newest_record_is_that_of_the_alert_on_old_verdicts() -> None:
    (rule,) = (rule for rule in ALERTS if rule.name == "KafkaClientHealthStale")
    shown = re.sub(r',? ?(cluster|env)=~"[^"]*"', "", age_of_newest()).replace("{}", "")
    age = " ".join(shown.removeprefix("max(").removesuffix(")").split())
    assert f"{age} > {STALE_SECONDS}" in " ".join(rule.condition.split())


@each_board
def test_descriptions_contain_what_is_bad_what_to_do_and_the_alert(name: str) -> None:
    names = {rule.name for rule in ALERTS}
    for panel in panels(BOARDS[name]):
        if panel["type"] in ("row", "text"):
            continue
        text = panel["description"]
        assert len(text.split()) >= 15, panel["title"]
        assert re.search(r"\b[Aa]lerts?\b", text), panel["title"]
        for named in re.findall(r"\bKafkaClient[A-Za-z]+(?![\w…])", text):
            assert named in names, f"{panel['title']}: no alert {named}"


def test_an_axis_of_durations_has_no_decimals() -> None:
    """Without `decimals = 0`, Grafana 11 writes NaN on an axis of a few seconds."""
    charts = [panel for board in BOARDS.values() for panel in panels(board) if panel["type"] == "timeseries"]
    clocks = [defaults for panel in charts if (defaults := panel["fieldConfig"]["defaults"]).get("unit") == "dthms"]
    assert len(clocks) > 5 and all(defaults.get("decimals") == 0 for defaults in clocks)


def test_every_alert_is_named_by_a_panel_or_belongs_to_a_mode() -> None:
    text = json.dumps(list(BOARDS.values()), ensure_ascii=False)
    named = {rule.name for rule in ALERTS if "mode" not in rule.expr}
    suffixes = {"KafkaClientLagStalled", "KafkaClientLagStopped", "KafkaClientLagRewound"}
    assert {name for name in named - suffixes if name not in text} == {"KafkaClientHealthExporterDown"}


def test_every_series_is_shown_somewhere() -> None:
    text = json.dumps([*BOARDS.values(), *recordings().values()])
    rate_of = {f.name: f.name.replace("_total", "_rate") for f in ALL_FAMILIES if f.indicator.startswith("totals.")}
    assert {f.name for f in ALL_FAMILIES if rate_of.get(f.name, f.name) not in text} == set()


def test_every_recording_is_read_by_a_panel_or_a_rule() -> None:
    text, recorded = json.dumps([*BOARDS.values(), *(rule.expr for rule in ALERTS)]), recordings()
    read = {name for other, expr in recorded.items() for name in recorded if name != other and name in expr}
    assert {name for name in recorded if name not in text} - read == set()


@each_board
def test_links_lead_to_dashboards_and_set_variables_that_they_have(name: str) -> None:
    by_uid = {board["uid"]: {v["name"] for v in board["templating"]["list"]} for board in BOARDS.values()}
    count = 0
    for panel in panels(BOARDS[name]):
        for link in panel.get("fieldConfig", {}).get("defaults", {}).get("links", []):
            count += 1
            url = urlsplit(link["url"])
            if url.path.startswith("/d/"):
                variables = by_uid[url.path.removeprefix("/d/")]
                assert set(re.findall(r"var-(\w+)=", url.query)) <= variables
            else:
                assert link["url"].startswith("${status_page}/client?")
            for label in re.findall(r"\$\{__(?:field\.labels|data\.fields)\.(\w+):", link["url"]):
                queried = {m for target in panel["targets"] for m in metrics(plain(target["expr"])) if m}
                assert any(label in (*known_labels()[m], "instance") for m in queried), f"{panel['title']}: {label}"
    assert count or name == "monitor"


def plain(expr: str) -> str:
    for name, value in {**BUILT_IN, "slo_target": "0.5"}.items():
        expr = expr.replace(f"${name}", value)
    return expr


@each_board
def test_link_variables_of_alerts_come_first_and_datasource_before_all(name: str) -> None:
    names = [variable["name"] for variable in BOARDS[name]["templating"]["list"]]
    assert names[0] == "datasource" and names[-1] == "status_page"


def test_settings_reach_the_dashboards() -> None:
    settings = Settings(
        links=LinkSettings(status_page="https://kafka.example.org/"), review=ReviewSettings(slo_target=0.99)
    )
    constants = {
        v["name"]: v["query"] for v in boards(settings)["review"]["templating"]["list"] if v["type"] == "constant"
    }
    assert constants == {"status_page": "https://kafka.example.org", "slo_target": "0.99"}


def test_labels_of_the_settings_choose_and_keep_apart() -> None:
    settings = Settings(prometheus=PrometheusSettings(keep_labels=("cluster",), labels={"stage": "prod"}))
    for board in boards(settings).values():
        assert [v["name"] for v in board["templating"]["list"]][1:3] == ["cluster", "stage"]
        text = json.dumps(board)
        assert 'cluster=~\\"$cluster\\", stage=~\\"$stage\\"' in text and "$env" not in text


def test_nothing_of_one_machine_is_in_the_files() -> None:
    for file in sorted((ROOT / "dashboards/out").glob("*.json")):
        text = file.read_text("utf-8")
        assert not re.search(r"/(work|home|root|tmp|Users)/", text)
        assert Path(file).name == f"{file.stem}.json"


def test_a_mode_links_its_runbook_at_the_configured_address() -> None:
    name = "mode-producer-not-closed"
    wiki = Settings(links=LinkSettings(runbooks="https://wiki.example/kafka/"))
    assert "](${status_page}/runbooks/producer-not-closed)" in json.dumps(boards()[name])
    assert "](https://wiki.example/kafka/producer-not-closed)" in json.dumps(boards(wiki)[name])


@pytest.mark.parametrize(
    ("named", "sentence"),
    [
        (("rebalancs",), r"mode\.toml of consumer-stalled: .* has a function rebalancs"),
        (("to_client",), r"has a function to_client"),
        (("throttled",), r"the panel throttled needs kind; a panel's function must take"),
        (("latency_by_broker",), r"the panel latency_by_broker takes no `among`"),
        (("rebalances", "rebalances"), r"'Rebalances per minute' and 'Rebalances per minute' have the same id 133"),
    ],
)
def test_a_mode_names_panels_that_can_be_shown(named: tuple[str, ...], sentence: str) -> None:
    mode = replace(modes()["consumer-stalled"], panels=named)
    with pytest.raises(CatalogueError, match=sentence):
        rendered(failure_mode.page(mode, LinkSettings()), Settings())


PROOF = {
    "producer-callback-deadlock": {"kafka_client_producer_select_rate"},
    "delivery-stalled": {"kafka_client_producer_undelivered_age_seconds"},
    "send-blocked-on-metadata": {
        "kafka_client_producer_metadata_age_seconds",
        "kafka_client_producer_metadata_waiting_threads",
    },
    "producer-not-closed": {
        "kafka_client_producer_left_at_end_bytes",
        "kafka_client_producer_left_at_end_records",
    },
    "consumer-stalled": {
        "kafka_client_consumer_last_poll_age_seconds",
        "kafka_client_consumer_last_heartbeat_age_seconds",
    },
    "cross-topic-blocking": {
        "kafka_client_consumer_topic_records_consumed_rate",
        "kafka_client_consumer_queue_used_ratio",
    },
    "consumer-shutdown-loop": {
        "kafka_client_consumer_last_poll_age_seconds",
        "kafka_client_consumer_last_heartbeat_age_seconds",
    },
}


@pytest.mark.parametrize("mode", modes())
def test_the_dashboard_of_a_mode_begins_with_what_decides(mode: str) -> None:
    first, *others = [p for p in panels(BOARDS[f"mode-{mode}"])]
    assert (first["type"], first["title"]) == ("row", "What decides")
    decide = list(itertools.takewhile(lambda panel: panel["type"] != "row", others))
    text = json.dumps([target["expr"] for panel in decide for target in panel["targets"]])
    assert mode in PROOF, f"name the series of the first panels (`panels` of mode.toml) in PROOF, above: {text}"
    assert {series for series in PROOF[mode] if series not in text} == set(), "the first panels lack series of PROOF"


@pytest.mark.parametrize("mode", modes())
def test_measurements_of_a_mode_are_those_of_clients_that_can_have_it(mode: str) -> None:
    for panel in panels(BOARDS[f"mode-{mode}"]):
        queries = [target["expr"] for target in panel.get("targets", []) if "kafka_client_" in target["expr"]]
        for expr in queries if panel["type"] == "timeseries" else ():
            best = any(f"{end} by (cluster, env, service) ({s}" in expr for s in EVIDENCE for end in ("max", "min"))
            assert best or f'kafka_client_failure_mode{{mode="{mode}"' in expr, panel["title"]
