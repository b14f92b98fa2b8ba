"""Check that each failure stays visible to the end, and causes exactly one page."""

from __future__ import annotations

from collections.abc import Sequence

from clienthealth.model.wording import clock
from deploy.demo.progress import Course, unexplained
from deploy.demo.webhook import Page

DUE_SECONDS = 300.0
BEGIN_SECONDS = 900.0


def report(courses: Sequence[Course], pages: Sequence[Page]) -> list[str]:
    """Return a line for each failure, with the times of its pages and verdicts."""
    lines = []
    for course in courses:
        if course.client.mode is None or course.running.onset_ms is None:
            continue
        times = [clock(page.received_ms) for page in paged(course, pages)]
        count = "1 page" if len(times) == 1 else f"{len(times)} pages"
        at = f" at {', '.join(times)}" if times else ""
        lines.append(f"{course.client.name:<20} {count}{at}, {_shown(course)}")
    return lines


def shortcomings(
    courses: Sequence[Course], pages: Sequence[Page], seconds: float, now_ms: int, pager: bool = True
) -> list[str]:
    """Return a sentence for each requirement that the demo did not meet.

    `seconds`: length of the demo's run. `now_ms`: end of the run (epoch ms). `pager`: False if there can be no pages,
    because no Alertmanager runs.
    """
    sentences = []
    for course in courses:
        name, onset = course.client.name, course.running.onset_ms
        if course.client.mode is not None and onset is None and seconds >= BEGIN_SECONDS:
            sentences.append(f"wrong: the failure of {name} has not begun within {seconds:.0f} s")
        if course.wronged:
            sentences.append(f"wrong: {name} was accused of {', '.join(sorted(course.wronged))}")
        if course.client.mode is None or onset is None:
            continue
        if course.first_shown_ms is None or not course.is_shown:
            due = now_ms - onset >= 1000 * DUE_SECONDS
            if due or course.first_shown_ms is not None:
                sentences.append(f"wrong: the monitor does not show the failure of {name} at the end: {_shown(course)}")
        elif course.gaps:
            sentences.append(f"wrong: the monitor did not always show the failure of {name}: {_shown(course)}")
        count = len(paged(course, pages))
        late = count == 0 and now_ms - onset < 1000 * DUE_SECONDS
        if pager and count != 1 and not late:
            sentences.append(f"wrong: the failure of {name} caused {count} pages, not one")
        if pager and count and not course.firing:
            sentences.append(f"wrong: the page on {name} was resolved although {name} still fails")
    nameless = {_about(page) for page in pages if page.labels.get("instance") and not page.labels.get("client_id")}
    sentences += [f"wrong: the page on {about} names a process, but no client" for about in sorted(nameless)]
    return sentences + unexplained(pages, courses)


def paged(course: Course, pages: Sequence[Page]) -> list[Page]:
    """Return the pages that the client's failure caused, in order of arrival."""
    pages_of_client = [
        page
        for page in pages
        if page.status == "firing" and page.labels.get("severity") == "critical" and course.explains(page.labels)
    ]
    first = {(tuple(sorted(page.labels.items())), page.started): page for page in reversed(pages_of_client)}
    return sorted(first.values(), key=lambda page: page.received_ms)


def _shown(course: Course) -> str:
    if course.first_shown_ms is None:
        return "never shown"
    text = f"shown from {clock(course.first_shown_ms)}"
    text += f" to {clock(course.last_shown_ms)}"
    if course.gaps:
        times = ", ".join(f"{clock(begin)} to {clock(end)}" for begin, end in course.gaps)
        text += f" but not from {times}"
    return f"{text}: {'still shown' if course.is_shown else 'not shown any more'}"


def _about(page: Page) -> str:
    labels = page.labels
    return f"{labels.get('severity')} alert {labels.get('alertname')} ({labels.get('service')}, {labels['instance']})"
