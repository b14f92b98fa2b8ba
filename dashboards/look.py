"""Colours, thresholds and words that mean the same on every dashboard.

Blue, yellow and dark red differ for every kind of colour vision (a test measures it). Grafana's green, yellow and red
do not. Nothing is shown by colour alone: values also have a word, and limits a line.
"""

from __future__ import annotations

from collections.abc import Mapping

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models import dashboard as model

from clienthealth.model.verdicts import STATUS_ORDER
from clienthealth.modes import modes

#: Names of Grafana's colours, which adapt to its theme, and the fixed colours for which they stand.
GOOD, WARNING, CRITICAL = "blue", "yellow", "dark-red"
PALETTE: Mapping[str, str] = {GOOD: "#5794F2", WARNING: "#FADE2A", CRITICAL: "#C4162A"}
#: Colours of an unknown value, which is neither good nor bad: NEUTRAL for a text, CLEAR for no colour at all.
NEUTRAL, CLEAR = "text", "transparent"
#: Background colour of a text for an unknown value.
UNKNOWN = "#50565e"
#: Colour of an unknown state in a timeline. NEUTRAL would be black on a light page, and louder than a failure.
BAND = "#8e959e"

#: Colours of verdict statuses as numbers (STATUS_ORDER). The worst status has the highest number, so that `max` finds
#: it.
STATUS_COLOURS = (NEUTRAL, GOOD, WARNING, CRITICAL)

#: States of a consumer group, the worst one last. In REWIND records are processed twice; in STOP none are processed.
LAG_STATES = ("UNKNOWN", "IDLE", "OK", "WARN", "STALL", "STOP", "REWIND")
LAG_COLOURS = (NEUTRAL, GOOD, GOOD, WARNING, CRITICAL, CRITICAL, CRITICAL)

#: Colours for failures. None of them means healthy.
FAILURES = (
    "dark-red", "orange", "purple", "yellow", "light-red", "dark-purple", "dark-orange", "light-purple", "dark-yellow",
    "light-orange", "super-light-red", "super-light-purple",
)  # fmt: skip


def mode_colours() -> Mapping[str, str]:
    """Return a fixed colour for each failure mode."""
    return {mode: FAILURES[place % len(FAILURES)] for place, mode in enumerate(modes())}


Limits = Mapping[float, str]


def limits(base: str, above: Limits) -> build.ThresholdsConfig:
    """Return thresholds: the colour `base` below the first limit, then each limit's colour from that limit on.

    Thresholds are always written out, because Grafana's default paints everything above 80 red.
    """
    thresholds = [model.Threshold(value=None, color=base)]
    thresholds += [model.Threshold(value=float(value), color=colour) for value, colour in sorted(above.items())]
    return build.ThresholdsConfig().mode(model.ThresholdsMode.ABSOLUTE).steps(thresholds)


def words(numbered: Mapping[int, tuple[str, str]]) -> list[model.ValueMapping]:
    """Map each number to a word in a colour."""
    options = {
        str(value): model.ValueMappingResult(text=text, color=colour, index=index)
        for index, (value, (text, colour)) in enumerate(numbered.items())
    }
    return [model.ValueMap(options)]


def coloured(texts: Mapping[str, str]) -> list[model.ValueMapping]:
    """Map texts to colours."""
    return [model.ValueMap({text: model.ValueMappingResult(text=text, color=c) for text, c in texts.items()})]


def unknown(words: str) -> list[model.ValueMapping]:
    """Show missing values as this text in the colour for unknown; otherwise they would have the colour of 0."""
    unknown = model.ValueMappingResult(text=words, color=UNKNOWN)
    return [model.SpecialValueMap(model.DashboardSpecialValueMapOptions(model.SpecialValueMatch.NULL_AND_NAN, unknown))]


def status_words() -> list[model.ValueMapping]:
    """Return the words for a verdict's statuses."""
    return words(dict(enumerate(zip(STATUS_ORDER, (BAND, *STATUS_COLOURS[1:]), strict=True))))


def lag_words() -> list[model.ValueMapping]:
    """Return the words for a consumer group's states."""
    return words(dict(enumerate(zip(LAG_STATES, (BAND, *LAG_COLOURS[1:]), strict=True))))


def up_words() -> list[model.ValueMapping]:
    """Return the words for up and down."""
    return words({0: ("down", CRITICAL), 1: ("up", GOOD)})
