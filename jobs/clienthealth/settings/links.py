"""Addresses that alerts, dashboards, pages and the review have in common: of runbooks, and of dashboards in Grafana."""

from __future__ import annotations

from clienthealth.settings import LinkSettings

UID_PREFIX = "kafka-client-health"
#: Grafana allows no more characters.
UID_LENGTH = 40


#: The runbooks on the status page.
RUNBOOKS = "/runbooks"


def runbooks(settings: LinkSettings, status_page: str | None = None) -> str:
    """Where the runbooks are, without a trailing slash: on the status page by default.

    `status_page`: the status page as the link's reader addresses it ('' on itself), where not as the settings say.
    """
    page = settings.status_page if status_page is None else status_page
    return settings.runbooks.rstrip("/") or f"{page.rstrip('/')}{RUNBOOKS}"


def dashboard_uid(name: str) -> str:
    """The uid of one of our dashboards in Grafana."""
    return f"{UID_PREFIX}-{name}"[:UID_LENGTH].rstrip("-")
