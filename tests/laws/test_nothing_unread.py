"""Nothing is collected that nobody reads: metrics, options and log lines have a reader, or are excused here."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from functools import cache

import pytest

from clienthealth.cli.explain import explanation
from clienthealth.logs import signatures
from clienthealth.logs.signatures import SIGNATURES
from clienthealth.model.metrics import CLIENT_METRICS, CONFIG_OPTIONS, TOPIC_METRICS
from clienthealth.modes import Mode, modes
from clienthealth.reference.sources import modules, tree

#: Where what was collected is read: judgement, measurement, the step and what a group's lag is made of.
READERS = (
    *("clienthealth.modes", "clienthealth.indicators", "clienthealth.windows", "clienthealth.step"),
    *("clienthealth.logs.events", "clienthealth.logs.fields", "clienthealth.diagnose"),
)
#: Metrics that nothing reads, and why they are kept.
METRICS = {
    "record-send-rate": "the only sign of a producer in dialects that have no totals",
    "max-lag": "the only reading of a Scala consumer that fetches nothing",
    "ack-latency-avg": "kafka-python has no request latency: for whoever reads the topic",
    "ack-latency-max": "the same",
}
#: Lines of no mode that no module names: what they capture is read (the client's id, its version, its options).
LINES = {"client-version", "consumer-config", "connector-config", "legacy-client-named"}


@cache
def texts() -> frozenset[str]:
    """Every text that is written in a module of READERS."""
    return frozenset(
        node.value
        for module in modules()
        if module.startswith(READERS)
        for node in ast.walk(tree(module))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def unread(names: Iterable[str]) -> set[str]:
    """Those that no reader names, whole or without `-avg`, `-max`, `-p99`."""
    return {name for name in names if not {name, re.sub(r"-(avg|max|p99)$", "", name)} & texts()}


def test_every_metric_is_read_or_excused() -> None:
    assert unread({name for of_kind in CLIENT_METRICS.values() for name in of_kind} | {*TOPIC_METRICS}) == {*METRICS}


def test_every_option_is_read() -> None:
    assert unread(CONFIG_OPTIONS) == set()


def test_every_line_speaks_of_a_mode_or_is_read() -> None:
    """A line of a mode keeps its incident open, whether its judge names it or not."""
    assert {line.mode for line in SIGNATURES} - {None} <= modes().keys()
    assert unread(line.id for line in SIGNATURES if line.mode is None) == LINES
    assert all(re.search(r"\(\?P<\w+>", line.pattern) for line in SIGNATURES if line.id in LINES)


def test_what_nobody_names_would_be_found() -> None:
    assert unread(["select-total", "callback-time-p99", "no-such-metric"]) == {"no-such-metric"}


def named_by(module: str) -> set[str]:
    """The lines that a module names: as a text, or by a constant of `logs.signatures`."""
    shared = vars(signatures)
    names = {node.id for node in ast.walk(tree(module)) if isinstance(node, ast.Name)}
    constants = [shared[name] for name in names if name in shared and name.isupper()]
    texts = {node.value for node in ast.walk(tree(module)) if isinstance(node, ast.Constant)}
    texts.update(*(constant if isinstance(constant, tuple) else (constant,) for constant in constants))
    return {line.id for line in SIGNATURES} & texts


@pytest.mark.parametrize("mode", modes().values(), ids=modes())
def test_explain_lists_the_lines_that_the_judge_looks_at(mode: Mode) -> None:
    listed = explanation(mode, {})
    judged = named_by(f"clienthealth.modes.{mode.id.replace('-', '_')}")
    assert set(listed["log_lines"]) == judged
    assert ("log" in mode.evidence) == bool(judged)
    assert {*listed["log_lines"], *listed["symptoms"]} >= {line.id for line in SIGNATURES if line.mode == mode.id}
