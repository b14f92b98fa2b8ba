"""Check the alert rules with promtool: they are valid, and fire exactly when the hand-made cases expect it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.support.alert_rules import ROOT, RULE_FILES, TEST_FILES, read

pytestmark = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")


def test_rules_pass_promtool() -> None:
    command = ["promtool", "check", "rules", "--lint=all", "--lint-fatal", *map(str, RULE_FILES)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def alerts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the rules without their own intervals: evaluating three times as often would show nothing more."""
    folder = tmp_path_factory.mktemp("alerts")
    for path in (*RULE_FILES, *TEST_FILES):
        there, text = folder / path.relative_to(ROOT / "alerts"), path.read_text("utf-8")
        there.parent.mkdir(exist_ok=True)
        seldom = re.sub(r"^    interval: .*\n", "", text, flags=re.MULTILINE) if path in RULE_FILES else text
        there.write_text(seldom, "utf-8")
    return folder


#: Cases at odd hours or for rare events are marked long: they are half of promtool's work.
CASES = [
    pytest.param(path.name, marks=[pytest.mark.long] if path.name.startswith("odd-") else []) for path in TEST_FILES
]


@pytest.mark.parametrize("name", CASES)
def test_rules_behave(name: str, alerts: Path) -> None:
    command = ["promtool", "test", "rules", str(alerts / "tests" / name)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[:4000]


@pytest.mark.long
@pytest.mark.parametrize("name", [path.name for path in TEST_FILES])
def test_rules_are_evaluated_where_nobody_is_paged(name: str, alerts: Path) -> None:
    """Prometheus rejects a group with two identical alerts; each case runs with tickets only."""
    cases = read((alerts / "tests" / name).read_text("utf-8"))
    for case in cases["tests"]:
        times = [one["eval_time"] for kind in ("alert_rule_test", "promql_expr_test") for one in case.get(kind, [])]
        case.pop("alert_rule_test", None)
        case["promql_expr_test"] = [
            {"expr": "vector(0)", "eval_time": time, "exp_samples": [{"labels": "{}", "value": 0}]} for time in times
        ]
        for one in case["input_series"]:
            kept = re.sub(r',?env="[^"]*"', "", one["series"])
            one["series"] = re.sub(r"\{,?", '{env="staging",', kept if "{" in kept else f"{kept}{{}}", count=1)
    path = alerts / "tests" / f"quiet-{name}"
    path.write_text(yaml.safe_dump(cases), "utf-8")
    done = subprocess.run(["promtool", "test", "rules", str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[:4000]
