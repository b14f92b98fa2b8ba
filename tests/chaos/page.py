"""Write RESULTS.md, the page on what faults do to the monitor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median

from tests.chaos.faults import KINDS
from tests.chaos.floods import FLOODS, Flood
from tests.chaos.outcomes import Outcome, Outcomes

CONDITIONS = (
    "The history of the fault's six minutes equals the results calculated without faults.",
    "The history contains each row once.",
    "All readable records are decoded, and only unreadable records are rejected.",
    "The exporter shows the newest state after the fault.",
    "A real producer and a real consumer go on working.",
    "Records that the fault deletes are counted as lost.",
)


def text(outcomes: Outcomes, faults: int, skipped: Mapping[str, str], seed: int, floods: Iterable[Flood] = ()) -> str:
    lines = _lines(outcomes.all, faults, skipped, seed, outcomes.conditions)
    return "\n".join([*lines, *_floods(floods)]) + "\n"


def _lines(
    outcomes: Sequence[Outcome], faults: int, skipped: Mapping[str, str], seed: int, measured: Mapping[str, str]
) -> Iterator[str]:
    passed = sum(outcome.passed for outcome in outcomes)
    yield "# What faults do to the monitor"
    yield ""
    yield f"`make chaos` causes these faults and writes this page. **{passed} of {faults}** passed, with seed {seed}."
    if len(outcomes) < faults:
        yield f"The campaign ended before the other {faults - len(outcomes)} faults."
    again = [outcome for outcome in outcomes if outcome.again]
    if again:
        listed = ", ".join(f"{outcome.number + 1} (`{outcome.kind}`)" for outcome in again)
        yield f"These faults showed a difference at first. They passed after a correction: {listed}."
    yield ""
    yield (
        "Each fault strikes in the middle of its own six minutes of input. A fault counts as passed if all these "
        "conditions are met:"
    )
    yield ""
    yield from (f"- {condition}" for condition in CONDITIONS)
    yield ""
    yield "*Recovery* runs from the end of the fault until all input sent so far is processed and shown."
    yield ""
    yield (
        "| fault | what happens | faults | longest fault | median recovery | longest recovery "
        "| restarts of the monitor | differences | result |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    for name, kind in KINDS.items():
        mine = [outcome for outcome in outcomes if outcome.kind == name]
        if mine:
            recovery = [outcome.recovery for outcome in mine]
            differences = sum(len(outcome.differences) for outcome in mine)
            lasted = max(outcome.lasted for outcome in mine)
            good = sum(outcome.passed for outcome in mine)
            yield (
                f"| `{name}` | {kind.help} | {len(mine)} | {lasted:.0f} s | {median(recovery):.0f} s "
                f"| {max(recovery):.0f} s | {sum(outcome.restarts for outcome in mine)} | {differences} "
                f"| {'passed' if good == len(mine) else f'**{good} of {len(mine)}**'} |"
            )
        elif name in skipped:
            yield f"| `{name}` | {kind.help} | 0 | – | – | – | – | – | skipped: {skipped[name]} |"
    yield ""
    failed = [outcome for outcome in outcomes if not outcome.passed]
    if failed:
        yield "Differences of the faults that did not pass:"
        yield ""
        for outcome in failed:
            yield f"- fault {outcome.number + 1}, `{outcome.kind}`:"
            yield from (f"  - {difference.splitlines()[0]}" for difference in outcome.differences[:8])
        yield ""
    yield ", ".join(f"{name}: {value}" for name, value in measured.items())


def _floods(floods: Iterable[Flood]) -> Iterator[str]:
    for flood in floods:
        yield from ("", f"## {FLOODS[flood.name].__doc__}", "")
        yield from (f"- {line}" for line in flood.lines)
        if flood.wrong:
            yield from ("", f"**Failed**: {'; '.join(flood.wrong)}")
