"""Names say what a value is in this field: a verdict, a sample, a match; not that something was found or said."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from clienthealth.reference.sources import ROOT

#: Words that fit any value, and so name none.
EMPTY = frozenset({"found", "known", "told", "said", "thing", "things"})
#: Fields that others read under this name: `found` is when an incident was detected, in review.json.
ON_THE_WIRE = frozenset({("jobs/clienthealth/review/model.py", "found")})
FOLDERS = ("jobs", "exporters", "deploy", "dashboards", "tests")


def bound(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield name
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name


def test_the_law_sees_every_way_to_bind_a_name() -> None:
    source = "def told(said):\n    found = 1\n    self.known = [thing for thing in said]\n"
    assert {name for name in bound(ast.parse(source)) if name in EMPTY} == {"told", "said", "found", "known", "thing"}


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_name_is_a_word_that_fits_any_value(folder: str) -> None:
    empty = {
        (str(file.relative_to(ROOT)), name)
        for file in (ROOT / folder).rglob("*.py")
        for name in bound(ast.parse(file.read_text(encoding="utf-8")))
        if name.strip("_").lower() in EMPTY
    }
    assert empty <= ON_THE_WIRE, "name what the value is: names carry the meaning"
