"""The generated alert files are current, and options change them as documented."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from clienthealth.model.errors import CatalogueError, SettingsError
from clienthealth.settings import LinkSettings, PrometheusSettings, Settings
from clienthealth_exporters.alerts import build
from clienthealth_exporters.alerts.build import rules
from deploy.reference.alerts import catalogue, generate, with_head
from tests.support.alert_rules import ROOT, RULE_FILES, read


def test_committed_files_are_current() -> None:
    stale = [path for path, text in generate().items() if (ROOT / path).read_text("utf-8") != text]
    assert stale == [], "run `kafka-health generate`"


def test_dry_run_lowers_every_severity(tmp_path: Path) -> None:
    written = build.write(tmp_path, Settings(), dry_run=True)
    files = [path for path in written if path.parent.name == "rules"]
    assert {path.name for path in files} == {path.name for path in RULE_FILES}
    severities = [
        rule["labels"]["severity"]
        for path in files
        for group in read(path.read_text("utf-8"))["groups"]
        for rule in group["rules"]
        if "alert" in rule
    ]
    assert set(severities) == {"info"} and len(severities) > 20


def test_own_addresses_replace_every_placeholder(tmp_path: Path) -> None:
    links = LinkSettings(
        runbooks="https://wiki.example.org/kafka/",
        dashboards="https://grafana.example.org",
        status_page="https://health.example.org/",
    )
    for path in build.write(tmp_path, replace(Settings(), links=links), dry_run=False):
        assert "127.0.0.1" not in path.read_text("utf-8"), path.name
    group = read((tmp_path / "rules/watchdog.yml").read_text("utf-8"))["groups"][0]
    rule = next(rule for rule in group["rules"] if "alert" in rule)
    assert rule["annotations"]["runbook_url"] == "https://wiki.example.org/kafka/monitor-health"
    address, _, variables = rule["annotations"]["dashboard_url"].partition("?")
    assert address == "https://grafana.example.org/d/kafka-client-health-monitor" and "var-cluster" in variables


OWN_LABELS = replace(
    Settings(), prometheus=PrometheusSettings(keep_labels=("cluster", "region"), labels={"stage": "prod"})
)


def test_labels_of_the_settings_are_kept_by_every_rule_and_route(tmp_path: Path) -> None:
    written = build.write(tmp_path, OWN_LABELS, dry_run=False)
    text = "".join(path.read_text("utf-8") for path in written if path.parent.name == "rules")
    kept = "cluster, region, stage"
    assert text.count(f"by ({kept}") > 100 and f"on ({kept}" in text
    assert "cluster=%q,region=%q,stage=%q" in text
    assert "$labels.cluster $labels.region $labels.stage" in text
    assert not re.search(r"\benv\b", text), "no rule is left with the labels of others"
    alertmanager = read((tmp_path / "alertmanager.yml").read_text("utf-8"))
    assert alertmanager["route"]["group_by"][:4] == ["alertname", "cluster", "region", "stage"]
    assert all({"cluster", "region", "stage"} <= set(rule["equal"]) for rule in alertmanager["inhibit_rules"])


def test_rules_without_any_label_to_keep_apart_by_are_an_error() -> None:
    settings = replace(Settings(), prometheus=PrometheusSettings(keep_labels=()))
    with pytest.raises(SettingsError, match="keep_labels must name at least one label"):
        rules(settings)


def test_runbook_without_a_place_for_its_head_is_an_error() -> None:
    with pytest.raises(CatalogueError, match=r"runbooks/x\.md lacks the lines .* put both where"):
        with_head("x", "# A page\n", [])


def test_generated_files_contain_no_time_or_place() -> None:
    text = "".join(generate().values())
    assert not re.search(r"20\d\d-\d\d-\d\dT", text)
    assert str(ROOT) not in text


def test_a_runbook_names_the_limits_of_its_alerts_and_of_what_these_read() -> None:
    """The limits that this test expects were chosen by hand from limits.py."""
    limits = {alert.name: alert.limits for alert in catalogue()}
    storm = {"storm_minutes", "storm_services", "storm_clients", "fleet_one_service_ratio"}
    assert limits["KafkaClientFleetUnhealthy"] == {"fleet_confirmed_ratio", "fleet_confirmed_clients", *storm}
    assert limits["KafkaClientServiceSilent"] == {"silent_ratio", "silent_clients"}
    assert limits["KafkaClientErrorBudgetBurn"] == limits["KafkaClientHealthWatchdog"] == set()


@pytest.mark.parametrize("number", [0, 1], ids=["ticket", "page"])
def test_the_examples_of_the_page_are_alerts(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "alerts/adding.md").read_text("utf-8")
    example = page.split("```yaml\n")[1 + number].partition("```")[0]
    source = (ROOT / "alerts/rules/measurements.yml.j2").read_text("utf-8")
    head, _, rest = source.partition("    rules:\n")
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules/macros.j2").write_bytes((ROOT / "alerts/rules/macros.j2").read_bytes())
    (tmp_path / "rules/measurements.yml.j2").write_text(f"{head}    rules:\n{example}{rest}", "utf-8")
    monkeypatch.setattr("clienthealth_exporters.alerts.build.FILES", tmp_path)
    (text,) = rules(Settings()).values()
    every = [rule for group in read(text)["groups"] for rule in group["rules"]]
    added, committed = every[: [1, 3][number]], every[[1, 3][number] :]
    for rule in added:
        name = rule.get("alert") or rule["record"]
        like = [other for other in committed if (other.get("alert") or other.get("record")) == name]
        (same,) = [other for other in like if other.get("labels") == rule.get("labels")]
        assert rule["expr"] in same["expr"] and rule.get("for") == same.get("for")
