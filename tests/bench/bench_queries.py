"""Every query of every dashboard at 10,000 clients of 200 services, a thousand of them failing.

    python -m tests.bench.bench_queries

A real Prometheus with its default limits scrapes an exporter of this fleet, with all rules. Each query is asked as
Grafana asks it, at as many moments as our panels ask for: they lie within the last seconds, as what a query costs and
what Prometheus limits is the number of moments times series. Prints the ten most expensive; ends with 1 where one
fails.
"""

from __future__ import annotations

import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from dashboards.panel import MOMENTS
from tests.bench.bench_fleet import fleet
from tests.e2e.test_alert_delivery import now_ms
from tests.e2e.test_dashboards_queries import BOARDS, Prometheus, chosen, watching
from tests.support.dashboard_reading import label_values, queries

CLIENTS = 10_000
FAILING = 0.1
SHOWN = 10


def main() -> int:
    """Ask everything."""
    with (
        tempfile.TemporaryDirectory() as folder,
        watching(Path(folder), fleet(CLIENTS, FAILING, end_ms=now_ms()), busy=True, interval_seconds=5) as prometheus,
    ):
        took = []
        for query in _asked(prometheus):
            # A query at a time, so that a run that is given up has told what it has seen.
            print(f"{query[0]:.2f} s {query[3]}: {query[1][:60]}", file=sys.stderr, flush=True)
            took.append(query)
        took.sort(reverse=True)
    failed = [query for query in took if query[1] != "ok"]
    for seconds, outcome, size, where in [*took[:SHOWN], *failed]:
        print(f"{seconds:7.2f} s {size / 1e6:8.2f} MB  {where}: {outcome}")
    print(f"{len(took)} queries, {sum(seconds for seconds, *_ in took):.1f} s in all, {len(failed)} failed")
    return min(1, len(failed))


def _asked(prometheus: Prometheus) -> Iterator[tuple[float, str, int, str]]:
    """Seconds, what was said, bytes of the answer, and which query."""
    for name, board in BOARDS.items():
        for title, target in queries(board):
            end = now_ms() / 1000
            # A week by the minute, in as many steps.
            query = {"query": chosen(board, target["expr"].replace("[$__range:1m]", "[50s:5ms]"), {})}
            instant = target.get("instant", False)
            if not instant:
                query |= {"start": f"{end - MOMENTS * 0.02}", "end": f"{end}", "step": "0.02"}
            path = f"query{'' if instant else '_range'}?{urllib.parse.urlencode(query)}"
            yield _timed(prometheus, path, f"{name}, {title}")
        for variable in board["templating"]["list"]:
            if variable["type"] == "query":
                selector, label = label_values(variable)
                asked = urllib.parse.urlencode({"match[]": chosen(board, selector, {})})
                yield _timed(prometheus, f"label/{label}/values?{asked}", f"{name}, variable {label}")


def _timed(prometheus: Prometheus, path: str, where: str) -> tuple[float, str, int, str]:
    start = time.monotonic()
    try:
        with urllib.request.urlopen(f"{prometheus.url}/{path}", timeout=150) as answer:
            outcome, size = "ok", len(answer.read())
    except urllib.error.HTTPError as error:
        outcome, size = error.read().decode()[:300], 0
    return time.monotonic() - start, outcome, size, where


if __name__ == "__main__":
    sys.exit(main())
