"""Check that each row of the threat model in SECURITY.md names an existing test."""

from __future__ import annotations

import re

import pytest

from tests.support.alert_rules import ROOT, Rule, alerts

ROWS = [line for line in (ROOT / "SECURITY.md").read_text("utf-8").splitlines() if "::test_" in line]
ALERTS = alerts()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip()[:40])
def test_a_line_of_the_threat_model_has_its_test(row: str) -> None:
    path, name = re.findall(r"`(tests/\S+\.py)::(\w+)`", row)[-1]
    assert re.search(rf"^def {name}\(", (ROOT / path).read_text("utf-8"), re.MULTILINE)


def test_no_line_of_the_threat_model_is_without() -> None:
    model = (ROOT / "SECURITY.md").read_text("utf-8").partition("## Threat model")[2]
    table = [line for line in model.splitlines() if line.startswith("| ")]
    assert len(table) == len(ROWS) + 1 > 15


@pytest.mark.parametrize("rule", ALERTS, ids=str)
def test_labels_in_queries_and_links_of_alerts_are_quoted(rule: Rule) -> None:
    for name, text in rule.annotations.items():
        for query in re.findall(r"printf `([^`]*)`", text):
            assert set(re.findall(r"%.", query)) <= {"%q"}
        for link in re.findall(r"https?://(?:{{.*?}}|\S)*", re.sub(r"{{ with .*?}}|{{ end }}", "", text)):
            for label in re.findall(r"{{ *(\$labels[^}]*|\.[^}]*)}}", link):
                assert "| urlquery" in label, f"{name}: {label}"


@pytest.mark.parametrize("rule", ALERTS, ids=str)
def test_no_command_is_made_of_names_of_clients(rule: Rule) -> None:
    """No command in an alert contains names of clients, because a reader may paste the command into a shell."""
    for text in rule.annotations.values():
        outside = re.sub(r"{{.*?}}", lambda part: "LABEL" if "$labels" in part[0] else "", text)
        commands = re.findall(r"`([^`]*)`", outside)
        commands += re.findall(r"\b(?:kafka-health|kubectl|systemctl|kafka-[a-z-]+\.sh) [^.:;]*", outside)
        assert not [command for command in commands if "LABEL" in command]


def test_runbooks_take_no_name_from_an_alert() -> None:
    for page in (ROOT / "alerts/runbooks").glob("*.md"):
        assert "{{" not in page.read_text("utf-8"), page.name
