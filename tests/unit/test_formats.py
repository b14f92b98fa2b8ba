"""Each wire format is named after its module. No two formats of a stream have the same `order`."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

from clienthealth.read import formats

FILES = [module.name for module in pkgutil.iter_modules(formats.__path__) if not module.name.startswith("_")]


@pytest.mark.parametrize("file", FILES)
def test_a_format_is_found_by_its_file_and_named_as_it(file: str) -> None:
    declared = importlib.import_module(f"clienthealth.read.formats.{file}").FORMAT
    assert declared.name == file
    assert declared in formats.formats(declared.stream)


def test_the_order_of_asking_is_decided() -> None:
    for stream in ("metrics", "logs"):
        orders = [fmt.order for fmt in formats.formats(stream)]
        assert sorted(set(orders)) == orders, f"two formats of {stream} have the same order: choose one that is free"
