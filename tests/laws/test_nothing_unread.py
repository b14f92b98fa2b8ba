"""Check that each collected metric, option and log line is used."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterable
from functools import cache

import pytest

from clienthealth.model.metrics import CLIENT_METRICS, CONFIG_OPTIONS, TOPIC_METRICS
from clienthealth.modes import Mode, catalogue, modes
from clienthealth.ops.cli.modes import explanation
from clienthealth.read.logs.self_descriptions import BY_NAME, SELF_DESCRIPTIONS
from deploy.reference.rooms import modules, tree

READERS = (
    *("clienthealth.modes", "clienthealth.measure", "clienthealth.measure", "clienthealth.monitor.step"),
    *("clienthealth.read.logs.events", "clienthealth.read.logs.fields", "clienthealth.diagnose"),
)
METRICS = {
    "max-lag": "the only reading of a Scala consumer that fetches nothing",
    "ack-latency-avg": "kafka-python has no request latency: for whoever reads the topic",
    "ack-latency-max": "the same",
}


@cache
def texts() -> frozenset[str]:
    found: set[str] = set()
    for module in (module for module in modules() if module.startswith(READERS)):
        words = vars(importlib.import_module(module))
        for node in ast.walk(tree(module)):
            text = (
                node.value
                if isinstance(node, ast.Constant)
                else words.get(node.id)
                if isinstance(node, ast.Name)
                else None
            )
            found |= {text} if isinstance(text, str) else set()
    found.update(name for line in catalogue().meanings for name in (line.counted, line.halted))
    return frozenset(found)


def unread(names: Iterable[str]) -> set[str]:
    return {name for name in names if not {name, re.sub(r"-(avg|max|p99)$", "", name)} & texts()}


def test_every_metric_is_read_or_excused() -> None:
    assert unread({name for kind_metrics in CLIENT_METRICS.values() for name in kind_metrics} | {*TOPIC_METRICS}) == {
        *METRICS
    }


def test_every_option_is_read() -> None:
    assert unread(CONFIG_OPTIONS) == set()


def test_log_lines_of_no_mode_capture_values() -> None:
    lines = [line for line in SELF_DESCRIPTIONS if line is not BY_NAME["hangs"]]
    wordings = [wording for line in lines for wording in line.wordings]
    assert all(re.search(r"\(\?P<\w+>", wording.pattern) for wording in wordings)


def test_unused_names_would_be_found() -> None:
    assert unread(["select-total", "callback-time-p99", "no-such-metric"]) == {"no-such-metric"}


@pytest.mark.parametrize("mode", modes().values(), ids=modes())
def test_explain_lists_the_lines_that_the_judge_looks_at(mode: Mode) -> None:
    listed = explanation(mode, {})
    assert set(listed["log_lines"]) == {name for line in mode.reads for name in line.ids}
    assert ("log" in mode.evidence) == bool(mode.reads)
    assert {*listed["log_lines"], *listed["symptoms"]} >= {name for line in mode.lines for name in line.ids}
