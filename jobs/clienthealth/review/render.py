"""A review as a page, as text and as JSON: three views of the same numbers, the first two of one document."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from markupsafe import Markup

import clienthealth.review as package
from clienthealth.platform.html_page import rendered
from clienthealth.review import as_html, as_markdown, plots, wording
from clienthealth.review.document import Document
from clienthealth.review.model import Review, as_json
from clienthealth.review.period import DAY, Period
from clienthealth.review.sections import sections
from clienthealth.review.sections.health import figures

TITLE = "Reliability review of Kafka clients"


def write(review: Review, folder: Path) -> list[Path]:
    """Write review.html, review.md and review.json; nothing in them tells when or where they were made."""
    return written(folder, document(review), review.period.label, as_json(review))


def written(folder: Path, shown: Document, label: str, numbers: Mapping[str, Any]) -> list[Path]:
    """The files of a document and of its numbers. `label`: of the period, in a few signs."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {
        "review.html": _page(shown, label),
        "review.md": as_markdown.text(shown),
        "review.json": json.dumps(numbers, indent=1, ensure_ascii=False) + "\n",
    }
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in files]


def document(review: Review) -> Document:
    """What page and text show."""
    return Document(
        TITLE,
        title(review.period)
        + (f", cluster {review.cluster}" if review.cluster else "")
        + (f", environment {review.environment}" if review.environment else ""),
        review.answers,
        figures(review),
        sections(review),
        definitions(),
    )


def html(review: Review) -> str:
    """The page."""
    return _page(document(review), review.period.label)


def _page(shown: Document, label: str) -> str:
    return rendered(
        "clienthealth.review",
        "review.html.j2",
        document=shown,
        label=label,
        css=Markup(resources.files(package).joinpath("review.css").read_text("utf-8")),
        hatch=plots.HATCH,
        section=as_html.section,
    )


def markdown(review: Review) -> str:
    """The text."""
    return as_markdown.text(document(review))


def title(period: Period) -> str:
    """The period in words."""
    if period.is_week and period.label.startswith(f"{period.start.isocalendar()[0]}-W"):
        week = period.start.isocalendar()[1]
        return f"Week {week}: {wording.moment(period.start)[:-6]} to {_day(period)}, all times UTC"
    return f"{wording.moment(period.start)} to {wording.moment(period.end)} {period.end.year}, all times UTC"


def _day(period: Period) -> str:
    last = period.end - DAY
    return f"{last:%a} {last.day} {last:%b %Y}"


def definitions() -> list[tuple[str, str]]:
    """The words and their meanings, from the package's docstring."""
    terms: list[tuple[str, str]] = []
    for line in inspect.cleandoc(package.__doc__ or "").splitlines():
        if match := re.fullmatch(r"(\S[\w -]*?)\s{2,}(\S.*)", line):
            terms.append((match[1], match[2]))
        elif line.startswith("    ") and terms:
            terms[-1] = (terms[-1][0], f"{terms[-1][1]} {line.strip()}")
    return [(word, meaning.replace("`", "")) for word, meaning in terms]
