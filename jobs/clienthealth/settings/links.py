"""Addresses that alerts, dashboards, pages and the review have in common: of runbooks, and of dashboards in Grafana."""

from __future__ import annotations

import re
from collections.abc import Callable

from clienthealth.settings import LinkSettings

UID_PREFIX = "kafka-client-health"
#: Grafana allows no more characters.
UID_LENGTH = 40


#: The runbooks on the status page.
RUNBOOKS = "/runbooks"


def runbooks(settings: LinkSettings, status_page: str | None = None) -> str:
    """Where the runbooks are, without a trailing slash: on the status page by default.

    `status_page`: the status page as the link's reader addresses it ('.' on itself), where not as the settings say.
    """
    page = settings.status_page if status_page is None else status_page
    return settings.runbooks.rstrip("/") or f"{page.rstrip('/')}{RUNBOOKS}"


def filled(address: str, value: Callable[[str], str]) -> str:
    """An address with the value of each label that it names in braces: `https://health-{cluster}.example.org`."""
    return re.sub(r"\{(\w+)\}", lambda match: value(match[1]), address)


def dashboard_uid(name: str) -> str:
    """The uid of one of our dashboards in Grafana."""
    return f"{UID_PREFIX}-{name}"[:UID_LENGTH].rstrip("-")
