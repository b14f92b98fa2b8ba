"""The alert rules as Prometheus' own tool judges them: valid, and firing exactly when the cases by hand say so."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.alert_rules import ROOT, RULE_FILES, TEST_FILES

pytestmark = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")


def test_rules_pass_promtool() -> None:
    command = ["promtool", "check", "rules", "--lint=all", "--lint-fatal", *map(str, RULE_FILES)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def alerts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The rules, evaluated as often as a case says: to do it three times as often shows nothing more."""
    folder = tmp_path_factory.mktemp("alerts")
    for path in (*RULE_FILES, *TEST_FILES):
        there, text = folder / path.relative_to(ROOT / "alerts"), path.read_text("utf-8")
        there.parent.mkdir(exist_ok=True)
        seldom = re.sub(r"^    interval: .*\n", "", text, flags=re.MULTILINE) if path in RULE_FILES else text
        there.write_text(seldom, "utf-8")
    return folder


#: What happens at odd hours, or seldom, is long: half of all that promtool computes.
CASES = [
    pytest.param(path.name, marks=[pytest.mark.long] if path.name.startswith("odd-") else []) for path in TEST_FILES
]


@pytest.mark.parametrize("name", CASES)
def test_rules_behave(name: str, alerts: Path) -> None:
    command = ["promtool", "test", "rules", str(alerts / "tests" / name)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[:4000]
