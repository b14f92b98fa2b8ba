"""Where to look further: dashboards at the time of an incident, runbooks."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlencode

from clienthealth.configuration.installation import dashboard_uid, runbooks
from clienthealth.review.period import Period
from clienthealth.settings import LinkSettings

#: A dashboard shows this much before the onset and after the end.
MARGIN = timedelta(minutes=15)


@dataclass(frozen=True)
class Links:
    """The links of one review."""

    settings: LinkSettings
    period: Period
    cluster: str = ""

    def dashboard(self, mode: str, service: str, client_id: str, start: datetime, stop: datetime | None) -> str:
        """The dashboard of a failure mode for one client and the time of its incident; empty without Grafana."""
        if not self.settings.dashboards:
            return ""
        query = {
            "from": _ms(start - MARGIN),
            "to": _ms((stop or self.period.end) + MARGIN),
            **({"var-cluster": self.cluster} if self.cluster else {}),
            "var-service": service,
            "var-client_id": client_id,
        }
        return f"{self.settings.dashboards.rstrip('/')}/d/{dashboard_uid(f'mode-{mode}')}?{urlencode(query)}"

    def runbook(self, mode: str) -> str:
        """The runbook of a failure mode."""
        return f"{runbooks(self.settings)}/{mode}"


def _ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
