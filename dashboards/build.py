"""Build all dashboards as JSON for Grafana 12. The JSON should also work in other versions from 10 on.

`kafka-health generate` writes dashboards/out, with addresses for an installation on a single machine.
`kafka-health dashboards push` sends all dashboards to a Grafana. These dashboards have the addresses and the
`[review] slo_target` of your settings.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from clienthealth.modes import modes
from clienthealth.settings import LinkSettings, Settings
from dashboards.page import Page, rendered
from dashboards.panels import consumers, failure_mode, monitor, overview, producers, review

OUT = "dashboards/out"


@cache
def pages(links: LinkSettings) -> tuple[Page, ...]:
    return (
        overview.page(links),
        producers.page(),
        consumers.page(),
        *(failure_mode.page(mode, links) for mode in modes().values()),
        review.page(),
        monitor.page(),
    )


def boards(settings: Settings | None = None) -> Mapping[str, dict[str, Any]]:
    """Return the dashboards as JSON values, by name.

    Without settings, the dashboards equal the files in dashboards/out.
    """
    chosen = settings or Settings()
    return {page.name: rendered(page, chosen) for page in pages(chosen.links)}


def generate(settings: Settings | None = None) -> dict[str, str]:
    return {
        f"{OUT}/{name}.json": json.dumps(board, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
        for name, board in boards(settings).items()
    }
