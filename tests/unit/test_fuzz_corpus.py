"""Each input of the fuzzer's corpus satisfies every property that the fuzzer checks."""

from __future__ import annotations

import random
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import islice

import pytest

from tests.fuzz.__main__ import CORPUS, GUIDED, JUDGING, blown_up, kept
from tests.fuzz.targets import TARGETS, holds, nothing_hidden


@pytest.fixture(autouse=True)
def seen() -> Iterator[None]:
    with nothing_hidden():
        yield


@pytest.mark.parametrize("target", TARGETS)
def test_everything_holds_of_what_was_found(target: str) -> None:
    inputs = [*islice(TARGETS[target].seeds(), 20), *kept(target)]
    assert len(inputs) >= 20
    for data in inputs:
        holds(TARGETS[target], data)


def test_the_corpus_is_small() -> None:
    assert sum(file.stat().st_size for file in CORPUS.iterdir()) < 200_000


def test_a_piece_is_repeated_within_a_long_input() -> None:
    for seed in range(20):
        data = b"\0\0abcdefgh"
        longer = blown_up(random.Random(seed), data, 1_000)
        assert longer[:2] == b"\0\0" and 900 < len(longer) <= 1_010


def test_the_packages_that_guide_the_fuzzer_exist() -> None:
    assert all(find_spec(package) for package in (*GUIDED, *JUDGING))
