"""Colours, thresholds and words that mean the same on every dashboard."""

from __future__ import annotations

from collections.abc import Mapping

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models import dashboard as model

from clienthealth.model.verdicts import STATUS_ORDER
from clienthealth.modes import modes

GOOD, WARNING, CRITICAL = "blue", "yellow", "dark-red"
PALETTE: Mapping[str, str] = {GOOD: "#5794F2", WARNING: "#FADE2A", CRITICAL: "#C4162A"}
NEUTRAL, CLEAR = "text", "transparent"
UNKNOWN = "#50565e"
BAND = "#8e959e"

STATUS_COLOURS = (NEUTRAL, GOOD, WARNING, CRITICAL)

LAG_STATES = ("UNKNOWN", "IDLE", "OK", "WARN", "STALL", "STOP", "REWIND")
LAG_COLOURS = (NEUTRAL, GOOD, GOOD, WARNING, CRITICAL, CRITICAL, CRITICAL)

FAILURES = (
    "dark-red", "orange", "purple", "yellow", "light-red", "dark-purple", "dark-orange", "light-purple", "dark-yellow",
    "light-orange", "super-light-red", "super-light-purple",
)  # fmt: skip


def mode_colours() -> Mapping[str, str]:
    """Return the colour of each failure mode, by mode id."""
    return {mode: FAILURES[place % len(FAILURES)] for place, mode in enumerate(modes())}


Limits = Mapping[float, str]


def limits(base: str, above: Limits) -> build.ThresholdsConfig:
    """Return thresholds that give a value the colour of the highest limit that the value reaches.

    `base`: colour of a value that reaches no limit. `above`: maps each limit to its colour.
    """
    thresholds = [model.Threshold(value=None, color=base)]
    thresholds += [model.Threshold(value=float(value), color=colour) for value, colour in sorted(above.items())]
    return build.ThresholdsConfig().mode(model.ThresholdsMode.ABSOLUTE).steps(thresholds)


def words(numbered: Mapping[int, tuple[str, str]]) -> list[model.ValueMapping]:
    """Return mappings that show numbers as coloured words. `numbered` maps a number to its word and colour."""
    options = {
        str(value): model.ValueMappingResult(text=text, color=colour, index=index)
        for index, (value, (text, colour)) in enumerate(numbered.items())
    }
    return [model.ValueMap(options)]


def coloured(texts: Mapping[str, str]) -> list[model.ValueMapping]:
    """Return mappings that show texts in colours. `texts` maps a text to its colour."""
    return [model.ValueMap({text: model.ValueMappingResult(text=text, color=c) for text, c in texts.items()})]


def unknown(words: str) -> list[model.ValueMapping]:
    """Return a mapping that shows a missing value as `words` in the colour UNKNOWN."""
    unknown = model.ValueMappingResult(text=words, color=UNKNOWN)
    return [model.SpecialValueMap(model.DashboardSpecialValueMapOptions(model.SpecialValueMatch.NULL_AND_NAN, unknown))]


def status_words() -> list[model.ValueMapping]:
    """Return mappings that show a position in STATUS_ORDER as the verdict status at that position."""
    return words(dict(enumerate(zip(STATUS_ORDER, (BAND, *STATUS_COLOURS[1:]), strict=True))))


def lag_words() -> list[model.ValueMapping]:
    return words(dict(enumerate(zip(LAG_STATES, (BAND, *LAG_COLOURS[1:]), strict=True))))


def up_words() -> list[model.ValueMapping]:
    """Return mappings that show 0 as down and 1 as up."""
    return words({0: ("down", CRITICAL), 1: ("up", GOOD)})
