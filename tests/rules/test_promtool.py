"""The alert rules as Prometheus' own tool judges them: valid, and firing exactly when the cases by hand say so."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.alert_rules import RULE_FILES, TEST_FILES

pytestmark = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")


def test_rules_pass_promtool() -> None:
    command = ["promtool", "check", "rules", "--lint=all", "--lint-fatal", *map(str, RULE_FILES)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", TEST_FILES, ids=lambda path: path.stem)
def test_rules_behave(path: Path) -> None:
    done = subprocess.run(["promtool", "test", "rules", str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[:4000]
