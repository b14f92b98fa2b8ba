"""Put reviews of several clusters side by side. Each review gets a row, a section and a link to its own page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from clienthealth.model.values import grouped
from clienthealth.model.wording import count_of
from clienthealth.review.content import Figure, healthy, lost, number, percent
from clienthealth.review.model import SCHEMA, Review, as_json
from clienthealth.review.period import Period
from clienthealth.review.render import title, write, write_files
from clienthealth.review.slo import ServiceSlo, together

FIELDS = ("cluster", "headline", "overall", "themes", "quality")


@dataclass(frozen=True)
class Clusters:
    """Reviews of several clusters over the same period. No two clusters have the same name.

    Environments in which alerts may call a person come first. In each environment, the cluster that spent the largest
    share of its error budget comes first.
    """

    reviews: Sequence[Review]

    @property
    def period(self) -> Period:
        """The period, which all reviews share."""
        return self.reviews[0].period

    @property
    def answers(self) -> list[tuple[str, str]]:
        """A pair ("cluster: question", answer) for each question that the review of a cluster answers."""
        return [(f"{review.cluster}: {question}", text) for review in self.reviews for question, text in review.answers]

    @cached_property
    def overall(self) -> ServiceSlo:
        """Client-minutes, losses and error budget of all clusters together."""
        return _together(self.reviews)

    @cached_property
    def environments(self) -> dict[str, list[Review]]:
        """The reviews by environment. Each environment has totals and an error budget of its own."""
        return grouped(self.reviews, lambda review: review.environment)


class Row(NamedTuple):
    """A row of the table of clusters. `cluster`: '' in the row of a whole environment."""

    cluster: str
    environment: str
    slo: ServiceSlo
    incidents: int
    pages: str
    watched: str = ""


def _together(reviews: Sequence[Review]) -> ServiceSlo:
    return together([review.overall for review in reviews], reviews[0].overall.target)


def side_by_side(reviews: Sequence[Review]) -> Clusters:
    """Return the reviews in the order in which a meeting discusses them (see `Clusters`)."""

    def order(review: Review) -> tuple[bool, str, float, str]:
        return review.pages is None, review.environment, -(review.overall.budget.spent or 0), review.cluster

    return Clusters(sorted(reviews, key=order))


def write_all(clusters: Clusters, folder: Path) -> dict[str, list[Path]]:
    """Write the page of all clusters into `folder`, and each review into a subfolder with the cluster's name.

    Returns the files by subfolder; the key '' is for the files directly in `folder`.
    """
    files = {review.cluster: write(review, folder / review.cluster) for review in clusters.reviews}
    each = [as_json(review) for review in clusters.reviews]
    numbers = {
        "schema": SCHEMA,
        "period": each[0]["period"],
        "overall": clusters.overall.as_json(),
        "environments": {name: _together(reviews).as_json() for name, reviews in clusters.environments.items()},
        "clusters": [{name: numbers[name] for name in FIELDS} for numbers in each],
    }
    return {"": write_files(folder, "clusters", shown(clusters), numbers), **files}


def shown(clusters: Clusters) -> dict[str, Any]:
    """Return the variables of the templates for a review of several clusters, by name."""
    figures = []
    for environment, reviews in clusters.environments.items():
        overall, place = _together(reviews), f" of {environment}" if environment else ""
        observed = f"{number(overall.minutes.observed)} client-minutes"
        figures += [
            Figure(f"Healthy client-minutes{place}", healthy(overall), f"target {percent(overall.target)}"),
            Figure(f"Records lost{place}", lost(overall.lost.records), overall.lost.state),
            Figure(f"Incidents{place}", number(_incidents(reviews)), count_of(len(reviews), "cluster")),
            Figure(f"Clients{place}", number(overall.clients), observed),
        ]
    return {
        "clusters": clusters,
        "rows": list_rows(clusters),
        "label": clusters.period.label,
        "title": f"{title(clusters.period)}, {count_of(len(clusters.reviews), 'cluster')}",
        "details": False,
        "answers": [(review.cluster, review.headline[0]) for review in clusters.reviews],
        "figures": figures,
    }


def _pages(reviews: Sequence[Review]) -> str:
    counted = [len(review.pages) for review in reviews if review.pages is not None]
    return number(sum(counted)) if counted else "tickets only"


def _incidents(reviews: Sequence[Review]) -> int:
    return sum(theme.incidents for review in reviews for theme in review.themes)


def list_rows(clusters: Clusters) -> list[Row]:
    """Return one row per cluster, and one row per environment for all its clusters together."""
    rows = []
    for environment, reviews in clusters.environments.items():
        for one in reviews:
            watched = percent(one.quality.watched / one.quality.minutes, 1)
            rows.append(Row(one.cluster, environment, one.overall, _incidents([one]), _pages([one]), watched))
        rows.append(Row("", environment, _together(reviews), _incidents(reviews), _pages(reviews)))
    return rows
