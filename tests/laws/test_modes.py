"""Check the laws that every failure mode must obey."""

from __future__ import annotations

import ast
import dataclasses
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import clienthealth.modes
from clienthealth.diagnose.outcome import Diagnosis
from clienthealth.diagnose.report import report
from clienthealth.model.clients import Client
from clienthealth.model.verdicts import Verdict
from clienthealth.modes import Mode, catalogue, modes
from clienthealth.modes.facts import Cause
from clienthealth.monitor.window_verdicts import judge_windows
from clienthealth.monitor.window_verdicts import verdict as verdict_of
from clienthealth.platform import locations
from tests.laws.test_modes_recordings import truth, verdicts, was_stopped
from tests.scenarios import scenarios
from tests.support.recorded import clients, folders

ALL = list(modes().values())
every_mode = pytest.mark.parametrize("mode", ALL, ids=lambda mode: mode.id)

NOISE: dict[tuple[str, str], str] = {}
APPLICATION_WORDS = (
    "kfkBolt",
    "http-nio",
    "order-worker",
    "producer send fail",
    "kafkaSpout",
    "msg-consumer",
    "resend.",
)


def test_there_are_some_in_the_order_of_their_ids() -> None:
    ids = [mode.id for mode in ALL]
    assert ids
    assert ids == sorted(ids)


@every_mode
def test_the_id_is_the_folders_name(mode: Mode) -> None:
    assert Path(clienthealth.modes.__path__[0], mode.id.replace("-", "_"), "mode.toml").is_file()


@every_mode
def test_every_scenario_is_judged_as_it_must_be(mode: Mode) -> None:
    wrong = {}
    for scenario in scenarios().get(mode.id, ()):
        verdict = verdict_of(mode, scenario.window)
        if verdict.status != scenario.expected:
            wrong[scenario.name] = (scenario.expected, verdict)
    assert wrong == {}, (
        "scenario: its expected status, and the mode's; `fires` is for confirmed, `suspects` for suspected"
    )


@every_mode
@pytest.mark.parametrize("role", ["fires", "near-miss", "unknown"])
def test_it_fires_it_has_a_near_miss_and_it_can_admit_not_to_know(mode: Mode, role: str) -> None:
    windows = f"tests/scenarios/{mode.id.replace('-', '_')}.py"
    assert any(scenario.role == role for scenario in scenarios().get(mode.id, ())), f"{windows} lacks one: {role}"


@every_mode
def test_it_is_silent_on_every_control(mode: Mode) -> None:
    noisy = set()
    for folder in folders():
        judged = verdicts(folder).get(mode.id)
        control = truth(folder)["expected_mode"] is None and mode.id not in truth(folder).get("also", ())
        if control and judged and judged.status in ("suspected", "confirmed"):
            noisy.add(folder.name)
    excused = {name for name, of in NOISE if of == mode.id}
    if mode.absence:  # the recorder killed some clients, so their records were really lost
        excused |= {folder.name for folder in folders() if was_stopped(folder)}
    assert noisy <= excused, "its rules accuse clients that are fine: mend the rules, or give the reason in NOISE"


def test_every_exception_is_still_needed() -> None:
    for name, mode in NOISE:
        (folder,) = (f for f in folders() if f.name == name)
        assert verdicts(folder)[mode].status == "suspected"


def test_no_healthy_minute_is_unknown_once_there_are_readings() -> None:
    producer, consumer = clients(next(f for f in folders() if f.name == "c1_healthy"))
    for client in (producer, consumer):
        for window in client.windows:
            statuses = {v.status for v in judge_windows([window], {})}
            assert statuses == {"ok"}, window.start_ms


@every_mode
def test_every_threshold_has_a_unit_or_is_a_share_and_a_reason(mode: Mode) -> None:
    for field in dataclasses.fields(mode.thresholds):
        assert field.metadata["setting"].reason, field.name
        assert re.search(
            r"(_seconds|_ms|_bytes|_ratio|_share|_records|_lines|_repeats|_errors|_sends|_fills|_growth|_margin)$",
            field.name,
        ), f"{field.name}: the name ends in its unit, or in what it counts"


def causes_shown() -> dict[str, set[str]]:
    by_mode: dict[str, set[str]] = {mode.id: set() for mode in ALL}
    for mode in ALL:
        judged = [verdict_of(mode, s.window) for s in scenarios().get(mode.id, ())]
        judged += [judged_before for folder in folders() if (judged_before := verdicts(folder).get(mode.id))]
        by_mode[mode.id] = {str(v.detail["cause"]) for v in judged if v.unhealthy and v.detail.get("cause")}
    return by_mode


def test_every_cause_has_its_sentence_and_its_row_in_the_runbook_and_no_sentence_is_idle() -> None:
    shown = causes_shown()
    declared = {mode.id: {cause.id for cause in mode.causes if cause.id} for mode in ALL}
    assert shown == declared, (
        "left: causes of scenarios and recordings; right: causes of mode.toml; each needs a scenario"
    )
    for mode_id, causes in shown.items():
        runbook = locations.checkout() / "alerts" / "runbooks" / f"{mode_id}.md"
        assert runbook.is_file(), f"write {runbook}, from another mode's"
        rows = runbook.read_text(encoding="utf-8")
        assert [cause for cause in causes if f"| `{cause}` |" not in rows] == [], f"rows that {runbook} lacks"


WORLDS = {
    "java": (
        r"jcmd|jstack|\bJVM\b|\bjava\b|KafkaProducer|KafkaConsumer|BufferPool|waitOnMetadata|awaitUpdate|ZooKeeper|ZKConsumer|"
        r"try-with-resources|shutdown hook|max\.block\.ms|select-total|waiting-threads|RUNNABLE|Jolokia|onCompletion"
    ),
    "python": r"py-spy|faulthandler|atexit|max_block_ms|event loop|await ",
    "c": r"\bgdb\b|rd_kafka",
    "go": r"goroutine|pprof|kill -QUIT|\bdefer\b",
}
OF_LIBRARY = {
    "java": {"java"},
    "kafka-python": {"python"},
    "aiokafka": {"python"},
    "librdkafka": {"c", "python", "go"},
    "confluent-kafka": {"c", "python", "go"},
    "sarama": {"go"},
    "franz-go": {"go"},
    "kafka-go": {"go"},
}
JAVAS_OWN = {("producer-callback-deadlock", "send-in-callback")}


@every_mode
@pytest.mark.parametrize("library", OF_LIBRARY)
def test_a_verdict_holds_no_word_of_another_librarys_world(mode: Mode, library: str) -> None:
    foreign = "|".join(words for world, words in WORLDS.items() if world not in OF_LIBRARY[library])
    found = set()
    for cause in mode.causes or (Cause(""),):
        if library != "java" and (mode.id, cause.id) in JAVAS_OWN:
            continue
        for status in ("suspected", "confirmed", "unknown"):
            for kind in mode.kinds - ({"legacy-consumer"} if library != "java" else set()):
                client = Client("s", "h", "h:1", "a", kind, library)
                detail = {"cause": cause.id} if cause.id else {}
                for known in ({}, dict.fromkeys(re.findall(r"{(\w+)}", cause.sentence), "x")):
                    verdict = Verdict(mode.id, status, 0, {**detail, **known}, reason="r")
                    text = report(Diagnosis([(client, [verdict])]))
                    found |= {match[0] for match in re.finditer(foreign, text)}
    assert found == set()


def test_no_id_is_written_outside_its_mode() -> None:
    """The demo's programs may name modes, because each program is made for one mode."""
    ids = "|".join(modes())
    written = set()
    for folder in ("jobs", "exporters", "dashboards", "alerts", "deploy"):
        for path in (locations.checkout() / folder).rglob("*.py"):
            texts = {n.value for n in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(n, ast.Constant)}
            if any(isinstance(text, str) and re.search(rf"(?<![/-])\b({ids})\b(?!-)", text) for text in texts):
                written.add(str(path.relative_to(locations.checkout())))
    own = {path for path in written if path.startswith("jobs/clienthealth/modes/")}
    programs = {"deploy/demo/clients.py", "deploy/demo/python/failing.py"}
    assert written - own == {*programs, "deploy/benchmark/kafka_client_failures/__init__.py"}


@every_mode
def test_its_declaration_reads_well(mode: Mode) -> None:
    sentences = (mode.summary, mode.impact, mode.action, *(confusion.looks_like for confusion in mode.confusions))
    for sentence in sentences:
        assert sentence[0].isupper() or re.match(r"\w+\(\)", sentence), sentence
        assert sentence.endswith("."), sentence
    assert not mode.title.endswith(".")
    first_words = mode.effect.split()[:2]
    assert any(word.endswith("ing") for word in first_words), (
        "effect follows a number, as in `3 producers sending nothing`"
    )
    assert mode.suspected.severity != "critical", "a suspicion never pages: its severity is warning or info"
    assert len(mode.confusions) >= 3, "mode.toml needs three confusions at least"


@every_mode
def test_log_lines_speak_of_it(mode: Mode) -> None:
    assert mode.lines, "mode.toml needs a line ([lines.NAME]) that speaks of it, or lines_of_others"


@every_mode
def test_its_lines_come_from_clients_that_can_have_it(mode: Mode) -> None:
    assert [line.says for line in mode.lines if line.kind and line.kind not in mode.kinds] == []


def sources() -> list[Path]:
    return sorted(Path(clienthealth.modes.__path__[0]).rglob("*.py"))


def test_no_application_is_part_of_a_rule() -> None:
    rules = " ".join(path.read_text(encoding="utf-8") for path in sources())
    rules += " ".join(wording.pattern for wording in catalogue().wordings)
    assert [word for word in APPLICATION_WORDS if word in rules] == []


def test_modes_import_without_spark() -> None:
    code = "import sys; sys.modules['pyspark'] = None; from clienthealth.modes import modes; print(*modes())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [mode.id for mode in ALL]


def test_modes_and_log_lines_are_read_from_an_archive(tmp_path: Path) -> None:
    """`spark-submit --py-files` gives executors the program as an archive."""
    archive, jobs = str(tmp_path / "program.zip"), locations.checkout() / "jobs"
    with zipfile.ZipFile(archive, "w") as program:
        # This archive has no entries for folders, so each package needs an `__init__.py`.
        for file in sorted((jobs / "clienthealth").rglob("*.*")):
            if file.suffix in (".py", ".toml"):
                program.write(file, file.relative_to(jobs))
    code = (
        "import clienthealth.monitor.step, clienthealth.spark.session; from clienthealth import modes; "
        "from clienthealth.modes import advisories; advisories.libraries(); "
        "modes.catalogue(); print(modes.__file__, *modes.modes())"
    )
    environment = {**os.environ, "PYTHONPATH": archive}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.stdout.split() == [f"{archive}/clienthealth/modes/__init__.py", *(mode.id for mode in ALL)], done.stderr
