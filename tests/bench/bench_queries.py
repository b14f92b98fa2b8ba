"""Run every dashboard query and every rule for 3 clusters of 10,000 clients each."""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from clienthealth_exporters.alerts.build import PAGING
from dashboards.panel import MOMENTS
from tests.bench.bench_fleet import fleet, groups
from tests.e2e.test_alert_delivery import now_ms
from tests.e2e.test_dashboards_queries import BOARDS, Prometheus, chosen, watching
from tests.support.dashboard_reading import label_values, queries
from tests.support.waiting import eventually

CLUSTERS = ("eu", "us", "asia")
CLIENTS, GROUPS = 10_000, 400
FAILING = 0.1
SHOWN = 10
MAX_SAMPLES = 50_000_000
#: Prometheus skips evaluations of a rule group that takes longer than its interval.
ALLOWED_SECONDS = int(PAGING.removesuffix("s"))


class Asked(NamedTuple):
    seconds: float
    samples: int
    outcome: str
    where: str


def fleets(part: int) -> Iterator[dict[str, Any]]:
    end = now_ms()
    return itertools.chain(fleet(CLIENTS // part, FAILING, end_ms=end), groups(GROUPS // part, end_ms=end))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.bench_queries")
    parser.add_argument("--part", type=int, default=1, metavar="N", help="use one Nth of the fleet (default: 1)")
    asked, _ = parser.parse_known_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        watching(Path(folder), fleets(asked.part), busy=True, interval_seconds=5, clusters=CLUSTERS) as prometheus,
    ):
        took = []
        for query in asking(prometheus):
            print(f"{query.seconds:.2f} s {query.where}: {query.outcome[:60]}", file=sys.stderr, flush=True)
            took.append(query)
        groups = evaluated(prometheus)
    took.sort(reverse=True)
    failed = [query for query in took if query.outcome != "ok"]
    for query in [*took[:SHOWN], *failed]:
        print(f"{query.seconds:7.2f} s {query.samples / 1e6:8.2f} M samples  {query.where}: {query.outcome}")
    slow = [group for group in groups if group.outcome != "ok" or group.seconds > ALLOWED_SECONDS]
    for group in sorted(groups, reverse=True)[:SHOWN]:
        print(f"{group.seconds:7.2f} s rules {group.where}: {group.outcome}")
    print(f"{len(took)} queries, {sum(query.seconds for query in took):.1f} s in all, {len(failed)} failed")
    return min(1, len(failed) + len(slow))


def asking(prometheus: Prometheus, moments: int = MOMENTS) -> Iterator[Asked]:
    for name, board in BOARDS.items():
        for title, target in queries(board):
            end = now_ms() / 1000
            # A panel over a week reads a value per minute, about 10,000 values. Our records span only seconds, so read
            # 10,000 values in 50 s: a value per 5 ms.
            expr = target["expr"].replace("[$__range:1m]", "[50s:5ms]")
            expr = expr.replace("[$__range:$__interval]", f"[{20 * moments}ms:20ms]")
            query = {"query": chosen(board, expr, {}), "stats": "all"}
            instant = target.get("instant", False)
            if not instant:
                query |= {"start": f"{end - moments * 0.02}", "end": f"{end}", "step": "0.02"}
            path = f"query{'' if instant else '_range'}?{urllib.parse.urlencode(query)}"
            yield _timed(prometheus, path, f"{name}, {title}")
        for variable in board["templating"]["list"]:
            if variable["type"] == "query":
                selector, label = label_values(variable)
                asked = urllib.parse.urlencode({"match[]": chosen(board, selector, {})})
                yield _timed(prometheus, f"label/{label}/values?{asked}", f"{name}, variable {label}")


def evaluated(prometheus: Prometheus) -> list[Asked]:
    asked = now_ms() / 1000

    def afterwards() -> list[dict[str, Any]] | None:
        with urllib.request.urlopen(f"{prometheus.url}/rules", timeout=150) as answer:
            groups: list[dict[str, Any]] = json.load(answer)["data"]["groups"]
        begun = (datetime.fromisoformat(group["lastEvaluation"][:19] + "+00:00").timestamp() for group in groups)
        return groups if min(begun) > asked else None

    groups = eventually(afterwards, "an evaluation of every group after the queries")
    return [
        Asked(
            group["evaluationTime"],
            0,
            next((rule["lastError"] for rule in group["rules"] if rule["health"] == "err"), "ok"),
            group["name"],
        )
        for group in groups
    ]


def _timed(prometheus: Prometheus, path: str, where: str) -> Asked:
    start, samples = time.monotonic(), 0
    try:
        with urllib.request.urlopen(f"{prometheus.url}/{path}", timeout=150) as answer:
            data = json.load(answer)["data"]
            outcome = "ok"
            if isinstance(data, dict):
                samples = data["stats"]["samples"]["peakSamples"]
    except urllib.error.HTTPError as error:
        outcome = error.read().decode()[:300]
    return Asked(time.monotonic() - start, samples, outcome, where)


if __name__ == "__main__":
    sys.exit(main())
