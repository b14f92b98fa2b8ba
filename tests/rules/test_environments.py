"""Evaluate every alert rule on series of three environments, and with the setting `ticket_only`."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
import yaml

from clienthealth.settings import Settings
from clienthealth_exporters.alerts.build import write
from tests.support.alert_rules import ROOT, TEST_FILES, read, seldom

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed"),
]

ENVIRONMENTS: Mapping[str, Sequence[Mapping[str, str]]] = {
    "pages and tickets": [{"cluster": "eu", "env": "prod"}, {"cluster": "eu", "env": "staging"}, {}],
    "tickets for low tiers": [{"cluster": "eu", "env": "prod"}],
}
LOW_TIERS = replace(Settings(), prometheus=replace(Settings().prometheus, ticket_only={"tier": "[3-9]"}))
LABEL = re.compile(r'\w+="(?:[^"\\]|\\.)*"')
OWNED = 'team="t",tier="4",pager=""'


@pytest.mark.parametrize("environment", ENVIRONMENTS)
@pytest.mark.parametrize("name", [path.name for path in TEST_FILES])
def test_every_rule_is_evaluated_in_every_environment(name: str, environment: str, tmp_path: Path) -> None:
    """If a rule drops the environment's labels, promtool fails because of identical alerts."""
    low = environment == "tickets for low tiers"
    write(tmp_path, LOW_TIERS if low else Settings(), dry_run=False)
    for path in (tmp_path / "rules").glob("*.yml"):
        path.write_text(seldom(path.read_text("utf-8")), "utf-8")
    cases = read((ROOT / "alerts/tests" / name).read_text("utf-8"))
    # Every evaluation fails if two alerts are identical.
    if cases["evaluation_interval"].endswith("s"):
        cases["evaluation_interval"] = "1m"
    for case in cases["tests"]:
        times = [one["eval_time"] for kind in ("alert_rule_test", "promql_expr_test") for one in case.get(kind, [])]
        case.pop("alert_rule_test", None)
        case["promql_expr_test"] = [
            {"expr": "vector(0)", "eval_time": time, "exp_samples": [{"labels": "{}", "value": 0}]} for time in times
        ]
        case["input_series"] = list(_in(ENVIRONMENTS[environment], case["input_series"], owned=low))
    path = tmp_path / "tests" / name
    path.parent.mkdir()
    path.write_text(yaml.safe_dump(cases), "utf-8")
    done = subprocess.run(["promtool", "test", "rules", str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[:4000]


def _in(
    environments: Sequence[Mapping[str, str]], series: Sequence[Mapping[str, str]], owned: bool
) -> Iterator[dict[str, str]]:
    made = {}
    for installation, one in product(environments, series):
        metric, _, labels = one["series"].partition("{")
        kept = [part for part in LABEL.findall(labels) if not part.startswith(("env=", "cluster="))]
        ours = [f'{name}="{value}"' for name, value in installation.items()]
        made[f"{metric}{{{','.join([*ours, *kept])}}}"] = one["values"]
        by = {part.partition("=")[0]: part for part in kept}
        if owned and "service" in by:
            made[f"kafka_client_owner_info{{{','.join([*ours, by['service'], OWNED])}}}"] = "1x3000"
        if owned and "cluster_name" in by and "group" in by:
            group_labels = ",".join([*ours, by["cluster_name"], by["group"], OWNED])
            made[f"kafka_consumergroup_owner_info{{{group_labels}}}"] = "1x3000"
    for name, text in made.items():
        yield {"series": name, "values": text}
