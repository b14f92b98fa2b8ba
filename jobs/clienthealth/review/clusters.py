"""Reviews of several clusters side by side: a row and a section for each, and each as a whole behind a link."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from clienthealth.model.wording import count_of
from clienthealth.review import loss
from clienthealth.review.document import (
    Bullets,
    Column,
    Document,
    Figure,
    Inline,
    Link,
    Name,
    Paragraph,
    Section,
    Strong,
    Table,
)
from clienthealth.review.model import SCHEMA, Review, Theme, as_json
from clienthealth.review.period import Period
from clienthealth.review.render import TITLE, definitions, title, write, written
from clienthealth.review.sections.failures import what_failed
from clienthealth.review.sections.health import state_of_budget, state_of_losses
from clienthealth.review.sections.naming import names
from clienthealth.review.slo import PERIODS, ServiceSlo, total
from clienthealth.review.wording import duration, healthy, lost, number, percent, points

#: What of a cluster's review stands in the numbers of all; its own file has the rest.
FIELDS = ("cluster", "headline", "overall", "themes", "quality")


@dataclass(frozen=True)
class Clusters:
    """Reviews of one period, by clusters whose names differ: environments that page first, within each the one that
    spent most of its budget."""

    reviews: Sequence[Review]

    @property
    def period(self) -> Period:
        """Of all of them."""
        return self.reviews[0].period

    @property
    def answers(self) -> list[tuple[str, str]]:
        """The three questions of each cluster with their answers."""
        return [(f"{review.cluster}: {question}", text) for review in self.reviews for question, text in review.answers]

    @cached_property
    def overall(self) -> ServiceSlo:
        """All clusters together."""
        return together(self.reviews)

    @cached_property
    def environments(self) -> dict[str, list[Review]]:
        """The reviews of each environment: what is ill in staging spends no budget of production."""
        by_environment: dict[str, list[Review]] = {}
        for review in self.reviews:
            by_environment.setdefault(review.environment, []).append(review)
        return by_environment


def together(reviews: Sequence[Review]) -> ServiceSlo:
    """The sums of reviews of several clusters."""
    each = [review.overall for review in reviews]
    return ServiceSlo(
        "",
        sum(slo.clients for slo in each),
        each[0].target,
        [total(slo.periods[n] for slo in each) for n in range(PERIODS)],
        {},
        loss.of_all(slo.lost for slo in each),
    )


def side_by_side(reviews: Sequence[Review]) -> Clusters:
    """The reviews in the order in which a meeting wants them."""

    def order(review: Review) -> tuple[bool, str, float, str]:
        return review.pages is None, review.environment, -(review.overall.budget.spent or 0), review.cluster

    return Clusters(sorted(reviews, key=order))


def write_all(clusters: Clusters, folder: Path) -> dict[str, list[Path]]:
    """Write the page of all into the folder, and each cluster's review into one of its name there; folder → files."""
    files = {review.cluster: write(review, folder / review.cluster) for review in clusters.reviews}
    return {"": written(folder, document(clusters), clusters.period.label, _json(clusters)), **files}


def document(clusters: Clusters) -> Document:
    """What page and text show."""
    return Document(
        TITLE,
        f"{title(clusters.period)}, {count_of(len(clusters.reviews), 'cluster')}",
        [(review.cluster, review.headline[0]) for review in clusters.reviews],
        [figure for environment, reviews in clusters.environments.items() for figure in _figures(environment, reviews)],
        [Section("all-clusters", "Clusters", [_table(clusters)]), *map(_section, clusters.reviews)],
        definitions(),
    )


def _figures(environment: str, reviews: Sequence[Review]) -> list[Figure]:
    overall, whose = together(reviews), f" of {environment}" if environment else ""
    return [
        Figure(f"Healthy client-minutes{whose}", healthy(overall), f"target {percent(overall.target)}"),
        Figure(f"Records lost{whose}", lost(overall.lost.records), overall.lost.state),
        Figure(f"Incidents{whose}", number(_incidents(reviews)), count_of(len(reviews), "cluster")),
        Figure(f"Clients{whose}", number(overall.clients), f"{number(overall.minutes.observed)} client-minutes"),
    ]


def _pages(reviews: Sequence[Review]) -> str:
    counted = [len(review.pages) for review in reviews if review.pages is not None]
    return number(sum(counted)) if counted else "tickets only"


def _incidents(reviews: Sequence[Review]) -> int:
    return sum(theme.incidents for review in reviews for theme in review.themes)


def _table(clusters: Clusters) -> Table:
    columns = (
        Column("Cluster"),
        Column("Healthy", number=True),
        Column("Budget"),
        Column("Spent", number=True),
        Column("Unhealthy", number=True),
        Column("Records lost"),
        Column("Incidents", number=True),
        Column("Pages", number=True),
        Column("Clients", number=True),
        Column("Watched", number=True),
        Column("Change, points", number=True),
    )
    rows = []
    for environment, reviews in clusters.environments.items():
        for review in reviews:
            watched = percent(review.quality.watched / review.quality.minutes, 1)
            rows.append(_row(Link(Name(review.cluster), f"#{review.cluster}"), review.overall, [review], watched))
        name = ("All of ", Name(environment)) if environment else "All clusters"
        rows.append(_row(name, together(reviews), reviews, ""))
    return Table(columns, rows, "Each against its own budget; the one that spent most of it first.")


def _row(name: Inline, slo: ServiceSlo, reviews: Sequence[Review], watched: str) -> tuple[Inline, ...]:
    return (
        name,
        healthy(slo),
        state_of_budget(slo),
        percent(slo.budget.spent, 0),
        number(slo.minutes.unhealthy),
        state_of_losses(slo),
        number(_incidents(reviews)),
        _pages(reviews),
        number(slo.clients),
        watched,
        points(slo.change),
    )


def _section(review: Review) -> Section:
    answers = Bullets([(Strong(question), f" {sentence}") for question, sentence in review.answers])
    whole = Link(("The whole review of ", Name(review.cluster)), f"{review.cluster}/review.html")
    columns = [Column("What went wrong"), Column("Services"), Column("Incidents", number=True)]
    columns += [Column("Clients", number=True), Column("Duration in all", number=True), Column("Lost records")]
    table = [Table(columns, [_failure(theme) for theme in review.themes])] if review.themes else []
    return Section(review.cluster, review.cluster, [answers, *table, Paragraph(whole)])


def _failure(theme: Theme) -> tuple[Inline, ...]:
    records = lost(theme.lost_records, theme.lost_bytes) if theme.loses else ""
    counts = number(theme.incidents), number(theme.clients), duration(theme.seconds)
    return what_failed(theme), names(theme.services), *counts, records


def _json(clusters: Clusters) -> dict[str, Any]:
    each = [as_json(review) for review in clusters.reviews]
    return {
        "schema": SCHEMA,
        "period": each[0]["period"],
        "overall": clusters.overall.as_json(),
        "environments": {name: together(reviews).as_json() for name, reviews in clusters.environments.items()},
        "clusters": [{name: numbers[name] for name in FIELDS} for numbers in each],
    }
