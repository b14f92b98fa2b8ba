"""Each dashboard conforms to Grafana's published types in each supported version."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from deploy.reference.rooms import ROOT
from tests.support.grafana_code import schema
from tests.support.rows import long_after

Board = dict[str, Any]
BOARDS: dict[str, Board] = {
    path.stem: json.loads(path.read_text("utf-8")) for path in sorted((ROOT / "dashboards/out").glob("*.json"))
}
#: Fields that Grafana's own dashboards use, although Grafana's types lack them.
_UNTYPED = {"templating": {"definition"}, "annotations": {"expr", "step", "tagKeys", "textFormat", "titleFormat"}}
VERSIONS = {
    "schema-10.4": {**_UNTYPED, "templating": {"definition", "allowCustomValue"}},
    "schema-11.6": _UNTYPED,
    "schema-13.2": _UNTYPED,
}

*OLDER, NEWEST = VERSIONS


def faults(version: str, board: Board) -> Iterator[str]:
    # If this import were at the top of the file, it would cost every test run two seconds.
    from jsonschema import Draft7Validator  # type: ignore[import-untyped]

    typed = copy.deepcopy(board)
    for part, names in VERSIONS[version].items():
        for one in typed[part]["list"]:
            for name in names & one.keys():
                del one[name]
    for error in Draft7Validator(schema(version)).iter_errors(typed):
        yield f"{'/'.join(map(str, error.absolute_path))}: {error.message[-200:]}"


@pytest.mark.parametrize("version", long_after(1, [NEWEST, *OLDER]))
@pytest.mark.parametrize("name", BOARDS)
def test_a_dashboard_is_one_by_grafanas_types(version: str, name: str) -> None:
    assert [*faults(version, BOARDS[name])] == []


def _unknown_field(board: Board) -> None:
    board["refreshes"] = "1m"


def _misspelt_default(board: Board) -> None:
    first_panel(board)["fieldConfig"]["defaults"]["unitt"] = "s"


def _height_in_words(board: Board) -> None:
    first_panel(board)["gridPos"]["h"] = "8"


def _no_such_sort(board: Board) -> None:
    board["templating"]["list"][1]["sort"] = 99


def _colour_without_mode(board: Board) -> None:
    first_panel(board)["fieldConfig"]["defaults"]["color"] = {"fixedColor": "red"}


def first_panel(board: Board) -> Any:
    return next(panel for panel in board["panels"] if panel["type"] == "stat")


@pytest.mark.parametrize("version", long_after(1, [NEWEST, *OLDER]))
@pytest.mark.parametrize(
    "spoil", [_unknown_field, _misspelt_default, _height_in_words, _no_such_sort, _colour_without_mode]
)
def test_a_wrong_field_is_one_fault(version: str, spoil: Callable[[Board], None]) -> None:
    board = copy.deepcopy(BOARDS["overview"])
    spoil(board)
    assert len([*faults(version, board)]) == 1


@pytest.mark.parametrize("version", VERSIONS)
def test_the_types_lack_each_listed_field(version: str) -> None:
    kinds = {"templating": "VariableModel", "annotations": "AnnotationQuery"}
    for part, names in VERSIONS[version].items():
        types = schema(version)["definitions"][kinds[part]]["properties"].keys()
        used = {name for board in BOARDS.values() for one in board[part]["list"] for name in one}
        assert names <= used - types
