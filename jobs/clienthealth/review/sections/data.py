"""How far the review can be trusted: what was watched, what was rejected, and what could not be computed."""

from __future__ import annotations

from collections.abc import Iterator

from clienthealth.review.document import Block, Bullets, Column, Inline, Name, Paragraph, Section, Strong, Table
from clienthealth.review.model import Review
from clienthealth.review.slo import Minutes
from clienthealth.review.wording import minutes, number, percent, stretch

GAPS_SHOWN, CLOCKS_SHOWN = 20, 10


def quality(review: Review) -> Section:
    """What was watched, and what was read of it."""
    return Section("quality", "Data quality", [*_quality(review)])


def _quality(review: Review) -> Iterator[Block]:
    quality = review.quality
    yield Paragraph(_watched(review))
    if quality.gaps:
        gaps = [f"{stretch(gap.start, gap.end)} ({minutes(gap.minutes)})" for gap in quality.gaps[:GAPS_SHOWN]]
        more = len(quality.gaps) - GAPS_SHOWN
        yield Bullets(gaps + ([f"and {more} more"] if more > 0 else []))
    if quality.clocks:
        yield Paragraph(tuple(_clocks(review)))
    if quality.inputs:
        columns = [Column("Input topic")]
        columns += [Column(name, number=True) for name in ("Records", "Rejected", "Share", "Late")]
        rows = [
            (
                Name(row.source_topic),
                number(row.records),
                number(row.rejected),
                percent(row.rejected / row.records if row.records else None),
                number(row.late),
            )
            for row in quality.inputs
        ]
        yield Table(columns, rows)


def _watched(review: Review) -> str:
    quality, overall = review.quality, review.overall.minutes
    every = overall.unknown + overall.observed
    watched = f"Watched {minutes(quality.watched)} of {minutes(quality.minutes)}"
    gaps = "Nobody watched in the gaps below: clients in them count neither as healthy nor as unhealthy."
    unknown = f"{number(quality.unknown)} client-minutes ({percent(overall.unknown / every if every else None, 1)})"
    return (
        f"{watched} ({percent(quality.watched / quality.minutes, 1)}). {gaps if quality.gaps else 'There was no gap.'} "
        f"{unknown} could not be judged and count neither way.{_partly(overall)}"
    )


def _partly(minutes: Minutes) -> str:
    if not minutes.partial:
        return ""
    return (
        f" In {number(minutes.partial)} ({percent(minutes.partial / minutes.observed, 1)}) nothing was found, but not "
        "every failure mode could be judged: they count as healthy by what was. The status page says what is missing; "
        "most often it is the log, or thread dumps."
    )


def _clocks(review: Review) -> Iterator[Inline]:
    clocks = review.quality.clocks
    yield f"The clocks of {number(len(clocks))} clients were off by more than a minute: "
    for position, clock in enumerate(clocks[:CLOCKS_SHOWN]):
        yield ", " if position else ""
        yield Name(clock.client_id), " of ", Name(clock.service), " on ", Name(clock.instance)
        yield f" ({clock.words}, {minutes(clock.minutes)})"
    if len(clocks) > CLOCKS_SHOWN:
        yield f" and {len(clocks) - CLOCKS_SHOWN} more"
    yield ". What they report stands at the time that they tell."


def not_computed(review: Review) -> Section:
    """What is missing, and why."""
    items: list[Inline] = [(Strong(what), f": {why}.") for what, why in review.not_computed]
    return Section("missing", "Not computed", [Bullets(items)])
