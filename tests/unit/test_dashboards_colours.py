"""The colours of ok, warning and critical differ for any kind of colour vision."""

from __future__ import annotations

import pytest

from dashboards.look import PALETTE
from tests.support.colour_vision import VISION, closest, difference

GRAFANA_DEFAULT = ("#73BF69", "#EAB839", "#F2495C")


@pytest.mark.parametrize("vision", VISION)
def test_palette(vision: str) -> None:
    assert closest(list(PALETTE.values()), vision) >= 20


def test_measure_finds_what_is_wrong_with_green_yellow_and_red() -> None:
    assert closest(GRAFANA_DEFAULT, "normal") > 25
    assert closest(GRAFANA_DEFAULT, "deutan") < 10
    assert closest(GRAFANA_DEFAULT, "protan") < 10


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    # CIEDE2000 test data of Sharma, Wu and Dalal, pairs 1, 7, 17 and 25.
    [
        ((50.0, 2.6772, -79.7751), (50.0, 0.0, -82.7485), 2.0425),
        ((50.0, 0.0, 0.0), (50.0, -1.0, 2.0), 2.3669),
        ((50.0, 2.5, 0.0), (73.0, 25.0, -18.0), 27.1492),
        ((60.2574, -34.0099, 36.2677), (60.4626, -34.1751, 39.4387), 1.2644),
    ],
)
def test_ciede2000(one: tuple[float, float, float], other: tuple[float, float, float], expected: float) -> None:
    assert difference(one, other) == pytest.approx(expected, abs=1e-4)
