"""Addresses that alerts, dashboards, pages and the review have in common: of runbooks, and of dashboards in Grafana."""

from __future__ import annotations

from clienthealth.settings import LinkSettings

UID_PREFIX = "kafka-client-health"
#: Grafana allows no more characters.
UID_LENGTH = 40


def runbooks(settings: LinkSettings) -> str:
    """Where the runbooks are, without a trailing slash: on the status page by default."""
    return settings.runbooks.rstrip("/") or f"{settings.status_page.rstrip('/')}/runbooks"


def dashboard_uid(name: str) -> str:
    """The uid of one of our dashboards in Grafana."""
    return f"{UID_PREFIX}-{name}"[:UID_LENGTH].rstrip("-")
