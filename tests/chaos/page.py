"""RESULTS.md: one page of what a campaign found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from tests.bench.results import conditions
from tests.chaos.campaign import Outcome
from tests.chaos.faults import KINDS


def text(outcomes: Sequence[Outcome], skipped: Mapping[str, str], seed: int, seconds: float) -> str:
    """The page, in Markdown."""
    return "\n".join(_lines(outcomes, skipped, seed, seconds)) + "\n"


def _lines(outcomes: Sequence[Outcome], skipped: Mapping[str, str], seed: int, seconds: float) -> Iterator[str]:
    passed = sum(outcome.passed for outcome in outcomes)
    yield "# What faults do to the monitor"
    yield ""
    yield f"Written by `make chaos`: {passed} of {len(outcomes)} passed, seed {seed}, {seconds / 60:.0f} minutes."
    yield ""
    yield "| fault | what is done | number | lasted | recovery, median | longest | restarts | differences | |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for name, kind in KINDS.items():
        mine = [outcome for outcome in outcomes if outcome.kind == name]
        if mine:
            recovery = [outcome.recovery for outcome in mine]
            differences = sum(len(outcome.differences) for outcome in mine)
            lasted = max(outcome.lasted for outcome in mine)
            good = sum(outcome.passed for outcome in mine)
            yield (
                f"| `{name}` | {kind.help} | {len(mine)} | to {lasted:.0f} s | {median(recovery):.0f} s "
                f"| {max(recovery):.0f} s | {sum(outcome.restarts for outcome in mine)} | {differences} "
                f"| {'passed' if good == len(mine) else f'**{good} of {len(mine)}**'} |"
            )
        elif name in skipped:
            yield f"| `{name}` | {kind.help} | 0 | | | | | | skipped: {skipped[name]} |"
    yield ""
    failed = [outcome for outcome in outcomes if not outcome.passed]
    if failed:
        yield "What was different:"
        yield ""
        for outcome in failed:
            yield f"- fault {outcome.number + 1}, `{outcome.kind}`:"
            yield from (f"  - {difference.splitlines()[0]}" for difference in outcome.differences[:8])
        yield ""
    load = conditions(0.0, seconds)
    yield ", ".join(f"{name}: {value}" for name, value in load.items())
