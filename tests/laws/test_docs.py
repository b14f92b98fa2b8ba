"""Check that the pages agree with the code."""

from __future__ import annotations

import argparse
import dataclasses
import re
import shlex
import typing
from collections.abc import Iterator
from pathlib import Path

import pytest

from clienthealth.configuration import NOT_SETTINGS, load, placed
from clienthealth.modes import modes
from clienthealth.ops.cli import commands as known_commands
from clienthealth.ops.cli import parser_for
from clienthealth.settings import Settings
from deploy.reference.rooms import ROOT
from tests.laws.pages import commands, pages
from tests.support import pictures
from tests.support.alert_rules import alerts, recordings
from tests.support.known_metrics import known_labels

ALL = "\n".join(pages().values())
README = pages()["README.md"]
REFERENCE = (ROOT / "deploy/config.reference.toml").read_text("utf-8")


def settings() -> Iterator[tuple[str, str, str]]:
    for section, kind in typing.get_type_hints(Settings).items():
        for field in dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ():
            yield section, field.name, field.metadata["setting"].reason


def test_each_picture_shows_the_present_template() -> None:
    noted = pictures.NOTED.read_text("utf-8").splitlines()
    present = pictures.hashes().splitlines()
    changed = sorted({line.split()[1] for line in {*noted} ^ {*present}})
    assert noted == present, f"changed after the picture was taken: {', '.join(changed)}; run `make pictures`"


def test_every_setting_is_in_the_reference_with_its_reason(tmp_path: Path) -> None:
    for section, key, reason in settings():
        part = re.split(r"^\[", REFERENCE.split(f"\n[{section}]\n")[1], flags=re.MULTILINE)[0]
        assert re.search(rf"^# {re.escape(reason)}(\. Allowed.*)?\n{key} = ", part, re.MULTILINE), f"[{section}] {key}"
        assert len(reason.split()) >= 3, f"[{section}] {key}"
    again = tmp_path / "reference.toml"
    again.write_text(REFERENCE, "utf-8")
    assert dataclasses.replace(load(str(again), {}), modes={}) == placed(Settings())


def test_every_variable_that_is_no_setting_is_documented() -> None:
    assert {name for name in NOT_SETTINGS if f"`{name}`" not in ALL} == set()


def test_pages_speak_of_settings_that_exist() -> None:
    existing = {(section, key) for section, key, _ in settings()} | {("kafka", "options")}
    named = set(re.findall(r"\[(\w+)\] (\w+)`", ALL))
    assert len(named) > 10
    assert named - existing == set()


def test_every_metric_is_documented() -> None:
    names = {re.sub(r"_(bucket|count|sum)$", "", name) for name in known_labels()} - recordings().keys() - {"up"}
    assert {name for name in names if f"`{name}`" not in ALL} == set()


def test_pages_speak_of_metrics_that_exist() -> None:
    named = set(re.findall(r"`(kafka_(?:client|consumergroup|partition)_\w*[a-z])(?:\{[^`]*\})?`", ALL))
    assert len(named) > 40
    assert named - known_labels().keys() - {"kafka_client_id"} == {
        name for name in named if f"{name}_bucket" in known_labels()
    }


def test_every_alert_is_documented_in_its_runbook() -> None:
    for rule in alerts():
        page = pages()[f"alerts/runbooks/{rule.annotations['runbook_url'].rsplit('/', 1)[1]}.md"]
        assert rule.name.removeprefix("KafkaClientHealth").removeprefix("KafkaClient") in page, rule.name


def test_pages_speak_of_alerts_that_exist() -> None:
    named = set(re.findall(r"`(KafkaClient[A-Z]\w+)`", ALL))
    assert named - {rule.name for rule in alerts()} == set()


def test_every_mode_is_documented() -> None:
    for mode in modes():
        assert f"alerts/runbooks/{mode}.md" in README
        assert f"alerts/runbooks/{mode}.md" in pages()


def test_every_command_is_documented() -> None:
    for name, stated in known_commands().items():
        assert f"| `kafka-health {name}` | {stated.help} |" in ALL


def ours() -> list[tuple[str, str]]:
    named = [(page, command) for page, text in pages().items() for command in commands(text)]
    return [(page, command) for page, command in named if "kafka-health" in command.split()[0]]


@pytest.mark.parametrize(("page", "command"), ours())
def test_every_documented_command_line_is_understood(page: str, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = shlex.split(command)[1:]
    monkeypatch.setattr("sys.argv", ["kafka-health", *arguments])
    assert isinstance(parser_for(arguments[0]).parse_args(arguments), argparse.Namespace)


def test_pages_speak_of_commands_that_exist() -> None:
    named = set(re.findall(r"`kafka-health ([a-z][a-z-]+)", ALL))
    assert named - known_commands().keys() == set()


@pytest.mark.parametrize("page", pages())
def test_links_lead_somewhere(page: str) -> None:
    """Links in runbooks may lack the suffix `.md`, because the exporter serves runbooks without the suffix."""
    for target in re.findall(r"\]\((?!https?:|#)([^)#\s]+)(?:#[^)]*)?\)", pages()[page]):
        there = (ROOT / page).parent / target
        assert there.exists() or (page.startswith("alerts/runbooks/") and there.with_suffix(".md").exists()), target


@pytest.mark.parametrize("page", pages())
def test_anchors_exist(page: str) -> None:
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)#([^)]+)\)", pages()[page]):
        there = ((ROOT / page).parent / target).resolve() if target else (ROOT / page)
        headings = re.findall(r"^#+ (.+)$", there.read_text("utf-8"), re.MULTILINE)
        assert anchor in {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}, anchor
