"""Grafana's own code makes the dashboards' tables from test data."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from deploy.reference.rooms import ROOT
from tests.support.grafana_code import HERE, NODE, modules

pytestmark = pytest.mark.long

LABELS = {
    "cluster": ["x", "x", ""],
    "instance": ["1", "2", "3"],
    "service": ["a", "b", "c"],
    "__name__": ["m", "m", "m"],
    "job": ["j", "j", "j"],
}
NOW_MS = 1_795_208_640_000


def tables() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in sorted((ROOT / "dashboards/out").glob("*.json")):
        for panel in json.loads(path.read_text("utf-8"))["panels"]:
            for one in (panel, *panel.get("panels", ())):
                if one.get("transformations"):
                    yield f"{path.stem}: {one['title']}", one


def frame(ref: str, alone: bool, rows: int) -> dict[str, Any]:
    value = "Value" if alone else f"Value #{ref}"
    fields = [{"name": "Time", "type": "time", "values": [NOW_MS] * rows}]
    fields += [{"name": name, "type": "string", "values": values[:rows]} for name, values in LABELS.items()]
    fields.append({"name": value, "type": "number", "values": [ord(ref) * 10 + row for row in range(rows)]})
    return {"refId": ref, "fields": fields}


@cache
def transformed() -> dict[str, list[dict[str, list[Any]]]]:
    asked = []
    for _, panel in tables():
        refs = [target["refId"] for target in panel["targets"]]
        frames = [frame(ref, len(refs) == 1, 2 if ref == "B" else 3) for ref in refs]
        asked.append({"frames": frames, "transformations": panel["transformations"]})
    command = [str(NODE), str(HERE / "transform.mjs"), str(modules())]
    done = subprocess.run(command, input=json.dumps(asked), capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return dict(zip((name for name, _ in tables()), json.loads(done.stdout), strict=True))


def hidden(panel: dict[str, Any]) -> set[str]:
    return {name for one in panel["transformations"] for name in one["options"].get("excludeByName", {})}


@pytest.mark.parametrize(("name", "panel"), [pytest.param(*table, id=table[0]) for table in tables()])
def test_the_text_of_an_empty_table_does_not_fill_empty_labels(name: str, panel: dict[str, Any]) -> None:
    (override,) = (
        o for o in panel["fieldConfig"]["overrides"] if o["matcher"] == {"id": "byType", "options": "string"}
    )
    assert override["properties"] == [{"id": "noValue", "value": ""}]


@pytest.mark.parametrize(("name", "panel"), [pytest.param(*table, id=table[0]) for table in tables()])
def test_a_table_has_a_row_per_client_and_a_column_per_query(name: str, panel: dict[str, Any]) -> None:
    (made,) = transformed()[name]
    headings = [target["legendFormat"] for target in panel["targets"]]
    wanted = ["service", "instance", "cluster", *headings]
    assert list(made) == [name for name in wanted if name not in hidden(panel)], "no Time, no job, no `Value #A`"
    assert made["service"] == ["a", "b", "c"]
    for target, heading in zip(panel["targets"], headings, strict=True):
        expected: list[float | None] = [ord(target["refId"]) * 10 + row for row in range(3)]
        shown = made[heading]
        assert shown == (expected if target["refId"] != "B" else [*expected[:2], None]), heading


@pytest.mark.parametrize(("name", "panel"), [pytest.param(*table, id=table[0]) for table in tables()])
def test_every_override_finds_its_column(name: str, panel: dict[str, Any]) -> None:
    (made,) = transformed()[name]
    columns = {*made, *LABELS, "mode", "status", "state", "kind", "client_id"}
    for override in panel["fieldConfig"]["overrides"]:
        if override["matcher"]["id"] == "byName":
            assert override["matcher"]["options"] in columns
