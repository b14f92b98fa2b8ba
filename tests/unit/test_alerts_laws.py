"""Every alert has a test and a runbook, and names only existing metrics and labels."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import promql_parser as promql
import pytest

from clienthealth.configuration.installation import KEPT, UID_LENGTH, dashboard_uid
from clienthealth.modes import modes
from clienthealth.settings import Settings
from clienthealth_exporters.prometheus.limits import BURNS, Burn
from tests.support.alert_rules import ROOT, TEST_FILES, Rule, alerts, every_alert, read
from tests.support.known_metrics import known_labels
from tests.support.promql import compares, metrics, nodes, surviving

ALERTS = alerts()
RUNBOOKS = ROOT / "alerts/runbooks"
SECTIONS = (
    "Do this now",
    "Meaning",
    "Impact",
    "Diagnosis",
    "Mitigation",
    "When it is a false alarm",
    "Confirm it is over",
    "Prevent",
)
SEVERITIES = {"critical", "warning", "info"}
ANNOTATIONS = {"summary", "description", "runbook_url", "dashboard_url"}
each_alert = pytest.mark.parametrize("rule", ALERTS, ids=str)


@each_alert
def test_names_are_an_api(rule: Rule) -> None:
    assert re.fullmatch(r"KafkaClient([A-Z][a-z]+)+", rule.name)
    assert rule.labels["severity"] in SEVERITIES


@each_alert
def test_annotations_are_complete(rule: Rule) -> None:
    titles = {"effect", "clients"}
    assert set(rule.annotations) - titles == ANNOTATIONS
    assert "status" not in rule.labels or rule.annotations.keys() > titles
    summary = rule.annotations["summary"]
    assert summary.endswith(".") and "{{" not in summary, "a summary is one static sentence"
    assert rule.name == "KafkaClientHealthWatchdog" or "What to do:" in rule.annotations["description"]


@each_alert
def test_expressions_compare_known_metrics(rule: Rule) -> None:
    assert metrics(rule.expr) <= known_labels().keys()
    assert compares(rule.condition) or rule.expr == "vector(1)"


COVERED = {"KafkaClientErrorBudgetBurn", "KafkaClientLagRetentionAtRisk"}


def test_every_page_becomes_a_ticket_while_paging_is_off() -> None:
    tickets = {(rule.name, rule.hold, rule.expr) for rule in every_alert() if 'quiet="yes"' in rule.expr}
    for rule in ALERTS:
        assert rule.labels["severity"] in SEVERITIES
        quiet = rule.expr.replace('quiet=""', 'quiet="yes"')
        pages = rule.labels["severity"] == "critical" and rule.name not in COVERED
        assert ((rule.name, rule.hold, quiet) in tickets) == pages, rule
    assert {rule.labels["severity"] for rule in every_alert() if 'quiet="yes"' in rule.expr} == {"warning"}


@each_alert
def test_alerts_on_clients_run_no_query(rule: Rule) -> None:
    text = " ".join(rule.annotations.values())
    assert "| query" not in text or "$labels.client_id" not in text


def test_no_two_rules_have_the_same_name_and_labels() -> None:
    """Prometheus rejects a group with two alerts of equal name and labels."""
    each = [(rule.name, frozenset((k, v) for k, v in rule.labels.items() if v)) for rule in every_alert()]
    assert [one for one in each if each.count(one) > 1] == []


@each_alert
def test_labels_in_templates_survive_the_expression(rule: Rule) -> None:
    text = " ".join(rule.annotations.values())
    # A template prints the part after `with $labels.x` only if label `x` exists.
    used = set(re.findall(r"\$labels\.(\w+)", text)) - set(re.findall(r"with \$labels\.(\w+)", text))
    assert used <= surviving(rule.expr, known_labels()) | rule.labels.keys()


@each_alert
def test_queries_in_templates_read_known_metrics(rule: Rule) -> None:
    for query in re.findall(r"printf `([^`]+)`", rule.annotations["description"]):
        assert metrics(query.replace("%q", '"x"')) <= known_labels().keys()
        assert {f"{label}=%q" for label in KEPT} <= set(re.split(r"[{},]", query)), "asks across installations"


@each_alert
def test_runbook_exists(rule: Rule) -> None:
    name = rule.annotations["runbook_url"].rsplit("/", 1)[1]
    assert rule.name in (RUNBOOKS / f"{name}.md").read_text("utf-8")


@each_alert
def test_dashboard_link(rule: Rule) -> None:
    plain = re.sub(
        r"{{ with \$labels\.(\w+) }}(.*?){{ \. \| urlquery }}&{{ end }}", r"\2\1&", rule.annotations["dashboard_url"]
    )
    url = urlsplit(plain.replace("{{ $labels.", "").replace(" | urlquery }}", ""))
    uid = url.path.removeprefix("/d/")
    uids = {dashboard_uid(name) for name in ("overview", "producers", "consumers", "review", "monitor")}
    assert uid in uids | {dashboard_uid(f"mode-{mode}") for mode in modes()}
    assert len(uid) <= UID_LENGTH
    for variable, (label,) in parse_qs(url.query).items():
        assert variable == f"var-{label}"


def test_what_to_do_about_the_exporter_is_not_only_on_the_exporter() -> None:
    (down,) = [rule for rule in ALERTS if rule.name == "KafkaClientHealthExporterDown"]
    for step in (
        "systemctl restart",
        "kubectl rollout restart",
        "log gives the reason",
        "alerts/runbooks/monitor-health.md",
    ):
        assert step in down.annotations["description"]


def test_dashboards_have_the_uids_and_variables_that_alerts_link_to() -> None:
    files = sorted((ROOT / "dashboards/out").glob("*.json"))
    if not files:
        pytest.skip("dashboards/out is empty")
    variables = {}
    for file in files:
        dashboard = json.loads(file.read_text("utf-8"))
        variables[dashboard["uid"]] = {variable["name"] for variable in dashboard["templating"]["list"]}
    for rule in ALERTS:
        url = urlsplit(rule.annotations["dashboard_url"])
        wanted = {name.removeprefix("var-") for name in re.findall(r"var-\w+", url.query)}
        uid = url.path.removeprefix("/d/")
        assert uid in variables, f"{rule}: no dashboard {uid}"
        assert wanted <= variables[uid], f"{rule}: dashboard {uid} lacks {sorted(wanted - variables[uid])}"


def test_no_rule_twice() -> None:
    seen = Counter((rule.name, tuple(sorted(rule.labels.items()))) for rule in ALERTS)
    assert [key for key, count in seen.items() if count > 1] == []


def test_every_mode_has_both_alerts_as_it_declares_them() -> None:
    named = {
        (
            rule.annotations["runbook_url"].rsplit("/", 1)[1],
            rule.labels.get("status"),
            rule.labels["severity"],
            rule.hold,
        )
        for rule in ALERTS
    }
    for mode in modes().values():
        assert (mode.id, "confirmed", mode.confirmed.severity, mode.confirmed.hold) in named
        assert (mode.id, "suspected", mode.suspected.severity, mode.suspected.hold) in named
        assert mode.suspected.severity != "critical", "no page for a client that may be fine"


@pytest.mark.parametrize("path", sorted(RUNBOOKS.glob("*.md")), ids=lambda path: path.stem)
def test_runbook_has_all_sections_and_an_alert(path: Path) -> None:
    text = path.read_text("utf-8")
    sections = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    assert [section.split("\n", 1)[0] for section in sections] == list(SECTIONS)
    for section in sections:
        assert len(section.split("\n", 1)[1].split()) >= 8, f"eight words at least: {section.split(chr(10), 1)[0]}"
    assert any(rule.annotations["runbook_url"].endswith(f"/{path.stem}") for rule in ALERTS)
    for linked in re.findall(r"\]\(([a-z-]+)\)", text):
        assert (RUNBOOKS / f"{linked}.md").is_file(), linked


each_runbook = pytest.mark.parametrize("path", sorted(RUNBOOKS.glob("*.md")), ids=lambda path: path.stem)
DANGEROUS = re.compile(
    r"\bkill |kubectl (delete|rollout|patch|set )|systemctl restart kafka|--execute|--delete\b|--alter|truncate|\brm "
)


@each_runbook
def test_a_runbook_begins_with_what_to_do(path: Path) -> None:
    title, first = path.read_text("utf-8").split("\n\n", 1)
    assert title.startswith("# ") and first.startswith("## Do this now\n")
    now = re.split(r"^#{2,3} |^<!--", first, flags=re.MULTILINE)[1]
    assert len(now.splitlines()) <= 50
    for step in (
        r"\bdump|\bkeep",
        r"\bdecide",
        r"\brestart|\broll back|\bkill",
        r"\bsend\b.*again|\bloses?\b|\blost\b",
    ):
        assert re.search(step, now, re.IGNORECASE | re.DOTALL), f"'Do this now' says none of: {step}"


@each_runbook
def test_commands_that_can_lose_data_warn_in_their_line(path: Path) -> None:
    blocks = re.findall(r"^ *```sh\n(.*?)^ *```$", path.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    lines = [line for block in blocks for line in block.splitlines()]
    for line in lines:
        command, _, comment = line.partition(" # ")
        assert not DANGEROUS.search(command) or "loses" in comment, line
        for kept in re.findall(r"(?:retention|lag)\.(?:ms|bytes)=([^,\s]+)", command):
            assert kept in ("-1", "OLD_MS", "OLD_BYTES"), "a number can be less than what is set, and deletes"
    prose = re.sub(r"^ *```.*?^ *```$", "", path.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    for sentence in re.split(r"\n\n|\n- |\n\d\. ", prose):
        assert not re.search(r"`[^`]*(kill -9 PID|--execute|--delete |truncate -)", sentence) or "lost" in sentence


@each_runbook
def test_queries_of_runbooks_read_known_metrics(path: Path) -> None:
    blocks = re.findall(r"^ *```promql\n(.*?)^ *```$", path.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    for line in "".join(blocks).splitlines():
        assert metrics(line.partition(" # ")[0]) <= known_labels().keys() | {"up"}, line


@each_runbook
def test_queries_of_runbooks_are_about_one_cluster_and_environment(path: Path) -> None:
    blocks = re.findall(r"^ *```promql\n(.*?)^ *```$", path.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    for line in "".join(blocks).splitlines():
        selectors = [n for n in nodes(promql.parse(line.partition(" # ")[0])) if isinstance(n, promql.VectorSelector)]
        for selector in selectors:
            matched = {matcher.name for matcher in selector.matchers.matchers}
            assert selector.name == "up" or {"cluster", "env"} <= matched, line


def test_every_alert_is_tested_firing_and_silent() -> None:
    fires: Counter[tuple[str, str, str]] = Counter()
    silent: Counter[str] = Counter()
    for path in TEST_FILES:
        for case in read(path.read_text("utf-8"))["tests"]:
            for check in case.get("alert_rule_test", ()):
                silent[check["alertname"]] += not check["exp_alerts"]
                for firing in check["exp_alerts"]:
                    assert firing["exp_annotations"].keys() >= ANNOTATIONS
                    labels = firing["exp_labels"]
                    fires[check["alertname"], labels["severity"], labels.get("long", "")] += 1
    case = "add a case to a file of alerts/tests"
    for rule in ALERTS:
        fired = fires[rule.name, rule.labels["severity"], rule.labels.get("long", "")]
        assert fired, f"{rule} is never tested firing: {case}, or correct the severity in its case"
        assert silent[rule.name] or rule.expr == "vector(1)", f"{rule} is never tested silent: {case}"
    assert {name for name, _, _ in fires} == {rule.name for rule in ALERTS}


@pytest.mark.parametrize("burn", BURNS, ids=lambda burn: burn.long)
def test_burn_rates_can_be_reached(burn: Burn) -> None:
    target = Settings().review.slo_target
    assert burn.factor * (1 - target) < 1


def test_every_scrape_of_the_exporter_honours_its_labels() -> None:
    """Without honor_labels, Prometheus replaces the client's instance with the exporter's own address."""
    scraping = [
        path
        for path in (ROOT / "deploy").rglob("*")
        if path.suffix in (".py", ".yml", ".yaml") and "scrape_configs" in path.read_text("utf-8")
    ]
    assert [str(path) for path in scraping if "honor_labels" not in path.read_text("utf-8")] == []
