"""Colours, thresholds and words that mean the same on every dashboard.

The colours are blue, yellow and dark red. People with any kind of colour vision can distinguish these three (a test
measures the differences), which is not true of Grafana's green, yellow and red. No meaning is shown by colour alone: a
coloured value also has a word or a number, and a threshold in a chart has a line.
"""

from __future__ import annotations

from collections.abc import Mapping

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models import dashboard as model

from clienthealth.model.verdicts import STATUS_ORDER
from clienthealth.modes import modes

#: Grafana's names of the three colours, and in PALETTE an RGB value for each. Which shade Grafana shows for a name
#: depends on Grafana's theme (light or dark).
GOOD, WARNING, CRITICAL = "blue", "yellow", "dark-red"
PALETTE: Mapping[str, str] = {GOOD: "#5794F2", WARNING: "#FADE2A", CRITICAL: "#C4162A"}
#: Colours for values that are neither good nor bad.
NEUTRAL, CLEAR = "text", "transparent"
#: Background colour of a cell or panel with an unknown value.
UNKNOWN = "#50565e"
#: Colour of an unknown state in a timeline. NEUTRAL is not used there, because on a light page it is black, and would
#: stand out more than a failure.
BAND = "#8e959e"

#: Colours of the verdict statuses, in the order of STATUS_ORDER. A query returns a status as its position in
#: STATUS_ORDER, so that `max` finds the worst status.
STATUS_COLOURS = (NEUTRAL, GOOD, WARNING, CRITICAL)

#: Lag states of a consumer group, the worst one last. REWIND is worse than STOP, because records are processed again.
LAG_STATES = ("UNKNOWN", "IDLE", "OK", "WARN", "STALL", "STOP", "REWIND")
LAG_COLOURS = (NEUTRAL, GOOD, GOOD, WARNING, CRITICAL, CRITICAL, CRITICAL)

#: Colours to distinguish failure modes. Blue and green are not among them, because they mean healthy in other panels.
FAILURES = (
    "dark-red", "orange", "purple", "yellow", "light-red", "dark-purple", "dark-orange", "light-purple", "dark-yellow",
    "light-orange", "super-light-red", "super-light-purple",
)  # fmt: skip


def mode_colours() -> Mapping[str, str]:
    """Return the colour of each failure mode, by mode id. With more modes than colours, some modes share a colour."""
    return {mode: FAILURES[place % len(FAILURES)] for place, mode in enumerate(modes())}


Limits = Mapping[float, str]


def limits(base: str, above: Limits) -> build.ThresholdsConfig:
    """Return thresholds: a value has the colour `base` below all limits, else the colour of the highest limit reached.

    `above`: limit → colour. Every panel gets explicit thresholds, because Grafana's default paints every value above
    80 red.
    """
    thresholds = [model.Threshold(value=None, color=base)]
    thresholds += [model.Threshold(value=float(value), color=colour) for value, colour in sorted(above.items())]
    return build.ThresholdsConfig().mode(model.ThresholdsMode.ABSOLUTE).steps(thresholds)


def words(numbered: Mapping[int, tuple[str, str]]) -> list[model.ValueMapping]:
    """Return mappings that show numbers as coloured words. `numbered`: number → (word, colour)."""
    options = {
        str(value): model.ValueMappingResult(text=text, color=colour, index=index)
        for index, (value, (text, colour)) in enumerate(numbered.items())
    }
    return [model.ValueMap(options)]


def coloured(texts: Mapping[str, str]) -> list[model.ValueMapping]:
    """Return mappings that show texts in colours. `texts`: text → colour."""
    return [model.ValueMap({text: model.ValueMappingResult(text=text, color=c) for text, c in texts.items()})]


def unknown(words: str) -> list[model.ValueMapping]:
    """Return mappings that show a missing value as `words` in the colour UNKNOWN, so that it does not look like 0."""
    unknown = model.ValueMappingResult(text=words, color=UNKNOWN)
    return [model.SpecialValueMap(model.DashboardSpecialValueMapOptions(model.SpecialValueMatch.NULL_AND_NAN, unknown))]


def status_words() -> list[model.ValueMapping]:
    """Return mappings that show a position in STATUS_ORDER as the name of the verdict status."""
    return words(dict(enumerate(zip(STATUS_ORDER, (BAND, *STATUS_COLOURS[1:]), strict=True))))


def lag_words() -> list[model.ValueMapping]:
    """Return mappings that show a position in LAG_STATES as the name of the lag state."""
    return words(dict(enumerate(zip(LAG_STATES, (BAND, *LAG_COLOURS[1:]), strict=True))))


def up_words() -> list[model.ValueMapping]:
    """Return mappings that show 0 as down and 1 as up."""
    return words({0: ("down", CRITICAL), 1: ("up", GOOD)})
