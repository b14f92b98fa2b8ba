"""Render a review as a page, as text and as JSON, all with the same numbers."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

import clienthealth.review as package
from clienthealth.platform.html_page import templates
from clienthealth.read.logs.also_seen import BY_ID
from clienthealth.review import content, plots
from clienthealth.review.model import Review, as_json
from clienthealth.review.period import DAY, Period, period_names

DETAILS = "review-details.html"
_PACKAGE = "clienthealth.review"
_MARKDOWN = re.compile(r"([\\`*_\[\]<>|#])")


def write(review: Review, folder: Path) -> list[Path]:
    """Write review.html, review.md, review.json and review-details.html; return their paths."""
    files = write_files(folder, "review", shown(review), as_json(review))
    (folder / DETAILS).write_text(details(review), encoding="utf-8")
    return [*files, folder / DETAILS]


def write_files(folder: Path, template: str, values: Mapping[str, Any], numbers: Mapping[str, Any]) -> list[Path]:
    """Write review.html and review.md from `values`, and review.json from `numbers`; return the paths.

    `template`: name of the two templates without `.html.j2` and `.md.j2`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = {
        "review.html": page(template, values),
        "review.md": text(template, values),
        "review.json": json.dumps(numbers, indent=1, ensure_ascii=False) + "\n",
    }
    for name, written in files.items():
        (folder / name).write_text(written, encoding="utf-8")
    return [folder / name for name in files]


def shown(review: Review) -> dict[str, Any]:
    """Return the variables of a review's templates, by name."""
    cluster = f", cluster {review.cluster}" if review.cluster else ""
    environment = f", environment {review.environment}" if review.environment else ""
    return {
        "review": review,
        "label": review.period.label,
        "title": f"{title(review.period)}{cluster}{environment}",
        "details": False,
        "answers": review.answers,
        "figures": [*content.list_figures(review)],
    }


def details(review: Review) -> str:
    """Return the page with everything that the first page leaves out."""
    return page("review", {**shown(review), "details": True})


def page(template: str, values: Mapping[str, Any]) -> str:
    """Render an HTML template. `template`: the name of its file without `.html.j2`."""
    return _pages().get_template(f"{template}.html.j2").render(values) + "\n"


def text(template: str, values: Mapping[str, Any]) -> str:
    """Render a Markdown template. `template`: the name of its file without `.md.j2`."""
    return re.sub(r"\n{3,}", "\n\n", _texts().get_template(f"{template}.md.j2").render(values)).strip() + "\n"


@cache
def _pages() -> Environment:
    pages = templates(_PACKAGE)
    pages.globals.update(
        _names(), css=lambda: Markup(resources.files(package).joinpath("review.css").read_text("utf-8"))
    )
    return pages


@cache
def _texts() -> Environment:
    def escaped(value: object) -> Markup:
        if isinstance(value, Markup):
            return value
        return Markup(_MARKDOWN.sub(r"\\\1", re.sub(r"[\r\n\t]+", " ", str(value))))

    texts = templates(_PACKAGE).overlay(autoescape=True, finalize=escaped)
    texts.globals.update(_names(), numeric=lambda names: [f"#{name}" for name in names])
    texts.filters["address"] = lambda url: Markup(re.sub(r"[\s()<>|\\]", lambda sign: f"%{ord(sign[0]):02X}", url))
    return texts


def _names() -> dict[str, Any]:
    public = {name: value for name, value in vars(content).items() if not name.startswith("_")}
    own = {"DETAILS": DETAILS, "definitions": definitions, "period_names": period_names, "plots": plots}
    return {**public, **own, "badges": content.BADGES, "known_issues": BY_ID}


def title(period: Period) -> str:
    """Return the period in words, for the title."""
    if period.is_week and period.label.startswith(f"{period.start.isocalendar()[0]}-W"):
        week = period.start.isocalendar()[1]
        last = period.end - DAY
        return f"Week {week}: {content.moment(period.start)[:-6]} to {last:%a} {last.day} {last:%b %Y}, all times UTC"
    return f"{content.moment(period.start)} to {content.moment(period.end)} {period.end.year}, all times UTC"


def definitions() -> list[tuple[str, str]]:
    """Return the terms of the review and their meanings, from the package's docstring."""
    terms: list[tuple[str, str]] = []
    for line in inspect.cleandoc(package.__doc__ or "").splitlines():
        if match := re.fullmatch(r"(\S[\w -]*?)\s{2,}(\S.*)", line):
            terms.append((match[1], match[2]))
        elif line.startswith("    ") and terms:
            terms[-1] = (terms[-1][0], f"{terms[-1][1]} {line.strip()}")
    return [(word, meaning.replace("`", "")) for word, meaning in terms]
