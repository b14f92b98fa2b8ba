"""A format and a failure mode can be added as our pages describe."""

from __future__ import annotations

import json
from pathlib import Path

from tests.laws.added import Copy

START = 1_795_208_640


def record(consumer: str, seconds: int, rebalances: int) -> str:
    document = {"app": "orders", "pod": "p-1", "consumer": consumer, "time": START + seconds, "rebalances": rebalances}
    return json.dumps(document)


def test_one_file_each(tmp_path: Path) -> None:
    copy = Copy(tmp_path / "copy")
    copy.add("jobs/clienthealth/read/formats/README.md", "jobs/clienthealth/read/formats/inhouse.py")
    copy.add(
        "jobs/clienthealth/modes/README.md",
        "jobs/clienthealth/modes/rebalance_storm/mode.toml",
        "jobs/clienthealth/modes/rebalance_storm/rules.py",
        "tests/scenarios/rebalance_storm.py",
    )
    lines = [record("stormy", 10 * n, n) for n in range(6)] + [record("calm", 10 * n, 1) for n in range(6)]
    records = tmp_path / "metrics.jsonl"
    records.write_text("\n".join(lines) + "\n", "utf-8")
    ended = copy.run("diagnose", "--json", str(records))
    assert ended.returncode == 1, ended.stderr
    statuses = {}
    for line in map(json.loads, ended.stdout.splitlines()):
        (verdict,) = (v for v in line["verdicts"] if v["mode"] == "rebalance-storm")
        statuses[line["client"]["client_id"]] = verdict["status"]
        assert (line["client"]["service"], line["client"]["instance"]) == ("orders", "p-1")
    assert statuses == {"stormy": "suspected", "calm": "ok"}
