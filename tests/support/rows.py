"""Split the rows of a parametrized test between `make test` and `make test-all`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def long_after(short: int, rows: Iterable[Any]) -> list[Any]:
    return [
        row if number < short else pytest.param(*(row if isinstance(row, tuple) else (row,)), marks=pytest.mark.long)
        for number, row in enumerate(rows)
    ]
