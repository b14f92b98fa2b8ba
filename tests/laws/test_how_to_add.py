"""Add a failure mode and a format as the pages describe, and check the result."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from clienthealth import modes
from clienthealth.measure.client_window import ClientWindow
from clienthealth.model.clients import Client
from clienthealth.model.readings import Reading
from deploy.reference.rooms import ROOT
from tests.laws.added import Copy

PLACES = ("jobs/clienthealth/modes", "jobs/clienthealth/read/formats", "tests/scenarios")
PAGE = "jobs/clienthealth/modes/README.md"
MODE = "rebalance-storm"
FOLDER = "jobs/clienthealth/modes/rebalance_storm"


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    made = Copy(tmp_path_factory.mktemp("copy"))
    made.with_tests()
    made.add(PAGE, f"{FOLDER}/mode.toml", f"{FOLDER}/rules.py", "tests/scenarios/rebalance_storm.py")
    made.add("jobs/clienthealth/read/formats/README.md", "jobs/clienthealth/read/formats/inhouse.py")
    (made.folder / FOLDER / "__init__.py").touch()
    runbook = (ROOT / "alerts/runbooks/consumer-shutdown-loop.md").read_text("utf-8")
    runbook += "\n| `members-come-and-go` | a member leaves and joins again |\n"
    (made.folder / f"alerts/runbooks/{MODE}.md").write_text(runbook, "utf-8")
    return made


def done(copy: Copy, *arguments: str) -> str:
    ended = copy.run(*arguments)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_it_is_in_the_catalogue(copy: Copy) -> None:
    assert MODE in done(copy, "modes")
    assert "min_repeats = 3" in done(copy, "explain", MODE)


def test_its_thresholds_can_be_set(copy: Copy) -> None:
    config = copy.folder / "health.toml"
    config.write_text(f"[modes.{MODE}]\nmin_repeats = 5\n", "utf-8")
    assert "min_repeats = 5" in done(copy, "check-config", "--config", str(config))


def test_alerts_dashboard_runbook_and_pages_are_made_of_it(copy: Copy) -> None:
    written = done(copy, "generate")
    for path in ("README.md", "deploy/config.reference.toml", f"alerts/runbooks/{MODE}.md"):
        assert f"written: {path}\n" in written
        assert MODE in (copy.folder / path).read_text("utf-8")
    rules = (copy.folder / "alerts/rules/failure-modes.yml").read_text("utf-8")
    page, ticket, suspected = rules.split("alert: KafkaClientRebalanceStorm\n")[1:]
    assert "        for: 5m\n" in suspected.partition("- alert")[0] and "        for: " not in page + ticket
    board = json.loads((copy.folder / f"dashboards/out/mode-{MODE}.json").read_text("utf-8"))
    assert {"What decides", "Rebalances per minute"} <= {panel["title"] for panel in board["panels"]}


@pytest.fixture
def judged(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> Callable[[list[float]], str]:
    spec = spec_from_file_location("rebalance_storm", copy.folder / FOLDER / "rules.py")
    assert spec and spec.loader
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "rebalance_storm", module)
    spec.loader.exec_module(module)
    mode: modes.Mode = module.MODE
    client = Client("orders", "h", "h:1", "c", "consumer")

    def status(counts: list[float]) -> str:
        readings = tuple(Reading(n * 10_000, {"rebalance-total": count}) for n, count in enumerate(counts))
        return mode.judge(ClientWindow(client, 0, 60_000, readings), mode.thresholds).status

    return status


def test_it_judges(judged: Callable[[list[float]], str]) -> None:
    assert judged([1, 2, 4]) == "suspected"
    assert judged([1, 2, 3]) == "ok"
    assert judged([1, 9]) == "unknown"


LAWS = (
    "the_id_is_the_folders_name or scenario_is_judged or it_fires or threshold or declaration or lines or line_that or "
    "application or explain_lists"
)


def test_the_example_obeys_the_laws_of_modes(copy: Copy) -> None:
    ended = copy.pytest("tests/laws/test_modes.py", "tests/laws/test_nothing_unread.py", "-k", LAWS, "-rA")
    assert ended.returncode == 0, ended.stdout
    assert ended.stdout.count(f"{MODE}]\n") >= 8


def test_the_example_of_a_format_obeys_the_laws_of_formats(copy: Copy) -> None:
    ended = copy.pytest("tests/unit/test_formats.py", "-rA")
    assert ended.returncode == 0, ended.stdout
    assert "named_as_it[inhouse]" in ended.stdout


def test_the_example_keeps_the_rules_of_the_repository(copy: Copy) -> None:
    ruff = Path(sys.executable).with_name("ruff")
    for command in (["check"], ["format", "--check"]):
        ended = subprocess.run(
            [str(ruff), *command, "--config", str(ROOT / "pyproject.toml"), *PLACES],
            cwd=copy.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, ended.stdout


def test_a_wording_is_one_entry_and_a_wrong_one_is_named_with_its_file(copy: Copy) -> None:
    page = (ROOT / "jobs/clienthealth/modes/wordings.md").read_text("utf-8")
    (example,) = re.findall(r"^```toml\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    file = copy.folder / FOLDER / "mode.toml"
    before = file.read_text("utf-8")
    chosen = ("tests/unit/test_wordings.py", "-k", "each_pattern or every or two_of_one_name")
    try:
        file.write_text(f"{before}\n{example}".replace('kafka-go, kafkajs"', 'kafka-go"'), "utf-8")
        ended = copy.pytest(*chosen)
        assert ended.returncode == 0 and "deselected" in ended.stdout and " passed" in ended.stdout, ended.stdout
        file.write_text(f"{before}\n{example}".replace("source.kafkajs", "source.cobol"), "utf-8")
        ended = copy.pytest(*chosen)
    finally:
        file.write_text(before, "utf-8")
    assert f"{FOLDER}/mode.toml, lines.rejoined, wording kafkajs-joined-its-group: source must name" in ended.stdout
