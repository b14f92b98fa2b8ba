"""Owners in alerts: labels team, tier and pager, by which routes and severities choose.

They are joined where an alert is made, as labels of every series would make all series of a service anew whenever its
owner changes, and break what is measured over days. What has no owner, or whose owner's series is not there, keeps the
labels that it has: it takes the default route, and is never lost.
"""

from __future__ import annotations

from collections.abc import Sequence

from clienthealth.configuration.installation import listed
from clienthealth.configuration.owners import OWNER_LABELS
from clienthealth_exporters.alerts.rule import Recording, by, on

OWNERS = "service:kafka_client_owner:info"
GROUP_OWNERS = "group:kafka_consumergroup_owner:info"
#: By service: it is there for as long as its budgets are looked at.
_LOOKED_AT = "service:kafka_client_confirmed:ratio3d"


def owner_recordings() -> Sequence[Recording]:
    """One owner per service and group, also while replicas do not agree; that of a service outlives its clients."""
    service, group = ("service",), ("cluster_name", "group")
    return [
        Recording(
            OWNERS,
            f"topk {by(*service)} (1,\n"
            f"group {by(*service, *OWNER_LABELS)} (kafka_client_owner_info)\n"
            f"or {on(*service)}\n"
            f"last_over_time({OWNERS}[15m])\nand {on(*service)}\n{_LOOKED_AT}\n"
            f")",
        ),
        Recording(
            GROUP_OWNERS,
            f"topk {by(*group)} (1,\ngroup {by(*group, *OWNER_LABELS)} (kafka_consumergroup_owner_info)\n)",
        ),
    ]


def owned(expr: str, *labels: str) -> str:
    """What has the `labels` (service among them) with those of the service's owner."""
    return _joined(expr, labels, ("service",), OWNERS)


def owned_group(expr: str, *labels: str) -> str:
    """What has the `labels` (cluster_name and group among them) with those of the group's owner."""
    return _joined(expr, labels, ("cluster_name", "group"), GROUP_OWNERS)


def _joined(expr: str, labels: Sequence[str], owned_by: Sequence[str], owners: str) -> str:
    return (
        f"(\n(\n{expr}\n)\n* {on(*owned_by)} group_left ({listed(OWNER_LABELS)})\n{owners}\nor {on(*labels)}\n{expr}\n)"
    )
