"""Check with promtool that the alert rules are valid, and fire as the cases expect."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import promql_parser as promql
import pytest
import yaml

from dashboards.build import boards
from deploy.reference.alerts import PLACEHOLDERS
from tests.support.alert_rules import ROOT, RULE_FILES, TEST_FILES, seldom
from tests.support.dashboard_reading import queries
from tests.support.known_metrics import known_labels
from tests.support.promql import nodes

pytestmark = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")


def test_rules_pass_promtool() -> None:
    command = ["promtool", "check", "rules", "--lint=all", "--lint-fatal", *map(str, RULE_FILES)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def alerts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("alerts")
    for path in (*RULE_FILES, *TEST_FILES):
        there, text = folder / path.relative_to(ROOT / "alerts"), path.read_text("utf-8")
        there.parent.mkdir(exist_ok=True)
        there.write_text(seldom(text) if path in RULE_FILES else text, "utf-8")
    return folder


#: Cases named `odd-…` are half of promtool's work.
CASES = [
    pytest.param(path.name, marks=[pytest.mark.long] if path.name.startswith("odd-") else []) for path in TEST_FILES
]


@pytest.mark.parametrize("name", CASES)
def test_rules_behave(name: str, alerts: Path) -> None:
    command = ["promtool", "test", "rules", str(alerts / "tests" / name)]
    # With GOGC=400, Go collects garbage less often. promtool then needs more memory, but a fifth less CPU time.
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "GOGC": "400"})
    assert done.returncode == 0, (done.stdout + done.stderr)[:4000]


OURS = {**PLACEHOLDERS, "host": "HOST", "shard": "1/1"}
VALUES = "0x30 0.01x30 1x30 100x30"


@pytest.mark.parametrize("name", sorted(path.stem for path in (ROOT / "alerts/runbooks").glob("*.md")))
def test_queries_of_a_runbook_see_their_own_cluster_alone(name: str, tmp_path: Path) -> None:
    """If only other clusters have series, a query finds nothing. Queries with `absent` or `up` are exceptions."""
    page = (ROOT / f"alerts/runbooks/{name}.md").read_text("utf-8")
    blocks = re.findall(r"^ *```promql\n(.*?)^ *```$", page, re.DOTALL | re.MULTILINE)
    queries = [line.partition(" # ")[0].strip().replace(" offset 1w", "") for line in "".join(blocks).splitlines()]
    tests = []
    for query in queries:
        other = {"cluster": "other"}
        for worlds, found in (
            ([{}, other], True),
            ([other, {"env": "other"}], "absent(" in query or query.startswith("up{")),
        ):
            series = [one for world in worlds for one in _asked(query, world)]
            seen = [{"labels": "{}", "value": 1}] if found else []
            expr = f"count_over_time((count({query}))[2h:1m]) > bool 0"
            tests.append(
                {
                    "interval": "1m",
                    "input_series": [{"series": one, "values": VALUES} for one in dict.fromkeys(series)],
                    "promql_expr_test": [{"expr": expr, "eval_time": "2h", "exp_samples": seen}],
                }
            )
    path = tmp_path / "test.yml"
    path.write_text(yaml.safe_dump({"tests": tests}), "utf-8")
    done = subprocess.run(["promtool", "test", "rules", str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[:4000]


def _asked(query: str, world: Mapping[str, str]) -> Iterator[str]:
    there = re.split(r" unless | or absent\(|^absent\(", query)[0]
    for selector in nodes(promql.parse(there)) if there else ():
        if isinstance(selector, promql.VectorSelector) and selector.name:
            matchers = selector.matchers.matchers
            labels = {label: OURS.get(label, "x") for label in known_labels()[selector.name]}
            asked = {matcher.name: re.split(r"\||\.\*", matcher.value)[0] for matcher in matchers}
            # Prometheus adds the label `job` to every series that it scrapes.
            known = {label: value for label, value in asked.items() if label in labels or label == "job"}
            made = {**labels, **known, **world}
            listed = ",".join(f'{label}="{value}"' for label, value in made.items())
            yield f"{selector.name}{{{listed}}}"


def test_a_client_that_was_silent_for_an_hour_and_has_recovered_is_drawn(tmp_path: Path) -> None:
    """Of 31 producers, the panel draws the 20 with the longest silence, even if a producer has recovered."""
    board = boards()["producers"]
    (expr,) = [target["expr"] for title, target in queries(board) if title == "Time since its last data"]
    expr = re.sub(r"\$\w+", ".*", expr.replace("[$__range:$__interval]", "[3h:45s]"))
    series = []
    for number in range(31):
        labels = f'{{cluster="eu",env="prod",service="s",host="h",instance="i",client_id="c-{number}"'
        since = "0+60x60 3600x60 7320+60x58" if number == 17 else "-30+60x180"
        series.append({"series": f"kafka_client_last_seen_timestamp_seconds{labels}}}", "values": since})
        series.append(
            {"series": f'kafka_client_info{labels},kind="producer",library="java",version="3.9.1"}}', "values": "1x181"}
        )
    found = [
        {"expr": f"count({expr})", "eval_time": "3h", "exp_samples": [{"labels": "{}", "value": 20}]},
        {
            "expr": f'count(({expr}) and on (client_id) kafka_client_info{{client_id="c-17"}})',
            "eval_time": "3h",
            "exp_samples": [{"labels": "{}", "value": 1}],
        },
    ]
    path = tmp_path / "test.yml"
    path.write_text(yaml.safe_dump({"tests": [{"interval": "1m", "input_series": series, "promql_expr_test": found}]}))
    done = subprocess.run(["promtool", "test", "rules", str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[:4000]
