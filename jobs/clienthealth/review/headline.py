"""The review in three sentences: how did we do, what went wrong, what is to be done."""

from __future__ import annotations

from clienthealth.model.wording import count_of, listing
from clienthealth.review.model import Review
from clienthealth.review.slo import total
from clienthealth.review.wording import duration, healthy, lost, minutes, number, percent, points

#: A smaller change of the SLI than this is none.
LEVEL = 0.00005


def headline(review: Review) -> tuple[str, str, str]:
    """Three sentences."""
    return _how(review), _wrong(review), _next(review)


def _how(review: Review) -> str:
    overall, unit = review.overall, review.period.unit
    if overall.budget.spent is None:
        return f"No client was observed this {unit}, so nothing can be said of their health{_lost(review)}."
    missed = [s for s in review.services if s.budget.state == "overspent"]
    observed = [s for s in review.services if s.minutes.observed]
    services = count_of(len(observed), "service")
    targets = {s.target for s in observed} or {review.target}
    target = f"the target of {percent(targets.pop())}" if len(targets) == 1 else "their targets"
    if missed:
        names = listing([f"{s.service or '(no name)'} ({percent(s.minutes.sli)})" for s in missed])
        verdict = f"{len(missed)} of {services} missed {target}: {names}"
    else:
        every = "the only service" if len(observed) == 1 else f"all {services}"
        verdict = f"{every} met {target}{'' if overall.lost.met else ' in client-minutes'}"
    spent = overall.budget.spent
    rest = f", {percent(1 - spent, 0)} is left" if spent <= 1 else ""
    return (
        f"Clients were healthy {healthy(overall)} of their observed time{_trend(review)}; "
        f"{percent(spent, 0)} of the {unit}'s error budget is spent{rest}; "
        f"{verdict}{_lost(review)}."
    )


def _lost(review: Review) -> str:
    overall = review.overall.lost
    if overall.none:
        return ""
    losses = listing([f"{s.service or '(no name)'} {lost(s.lost.records)}" for s in review.services if not s.lost.none])
    target = number(review.lost_records_target)
    return f"; records lost: {lost(overall.records)} (target {target}, {overall.state}): {losses}"


def _trend(review: Review) -> str:
    change, unit = review.overall.change, review.period.unit
    if change is None:
        return f" (the first {unit}, so there is no trend yet)"
    count = sum(1 for m in review.overall.periods[:-1] if m.observed)
    before = f"the {unit} before" if count == 1 else f"the {count} {unit}s before"
    sli = percent(total(review.overall.periods[:-1]).sli)
    if abs(change) < LEVEL:
        return f", level with {before} ({sli})"
    return f", {'better' if change > 0 else 'worse'} than {before} ({sli}, {points(change)} points)"


def _wrong(review: Review) -> str:
    unit, gap = review.period.unit, review.quality.gap_minutes
    blind = ""
    if gap:
        share = percent(gap / review.quality.minutes, 1)
        blind = f"; nobody watched for {minutes(gap)} ({share} of the {unit}), which counts neither way"
    if not review.themes:
        return f"No failure was found this {unit}{blind}."
    worst, rest = review.themes[0], len(review.themes) - 1
    about = f"“{worst.title}”{f' ({worst.cause})' if worst.cause else ''}"
    whose = f" of {listing(list(worst.services))}" if worst.services else ""
    certainty = "confirmed" if worst.confirmed == worst.incidents else f"{worst.confirmed} confirmed"
    count = count_of(worst.incidents, "incident")
    sentence = (
        f"The worst was {about}: {count} ({certainty}) on {count_of(worst.clients, 'client')}{whose}, "
        f"{duration(worst.seconds)} in all, found after a median of {duration(worst.detect)}"
    )
    others = f"; {count_of(rest, 'other cause')} {'is' if rest == 1 else 'are'} listed below" if rest else ""
    return f"{sentence}{others}{blind}."


def _next(review: Review) -> str:
    overdue = [a for a in review.actions if a.overdue_days]
    open_now = [t for t in review.themes if t.open]
    frozen = [s.service for s in review.services if s.long_budget.state == "overspent"]
    todo = []
    if open_now:
        todo.append(f"end what is still going on ({listing([f'“{t.title}”' for t in open_now], 2)})")
    if overdue:
        todo.append(f"settle {count_of(len(overdue), 'overdue action')}")
    if frozen:
        weeks = f"the last {len(review.periods)} {review.period.unit}s"
        todo.append(f"put reliability first in {listing(frozen)}, whose budget for {weeks} is overspent")
    elif review.themes and not open_now:
        todo.append(f"agree on one action against “{review.themes[0].title}”")
    if losing := [s.service or "(no name)" for s in review.services if not s.lost.met]:
        todo.append(f"send again what {listing(losing)} lost, where its source allows it")
    if review.quality.gap_minutes:
        todo.append("find out why the monitor was blind")
    if not todo:
        return "Nothing needs a decision today."
    return f"To do: {'; '.join(todo)}."
