"""Which installation a series is of: the labels that all of its series have, and that every rule keeps.

And what its alerts, dashboards, pages and reviews link to; and which clients an exporter serves, where several share a
fleet: a hash of the key decides, and nothing moves.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from urllib.parse import quote
from zlib import crc32

from clienthealth.model.clients import Client
from clienthealth.model.errors import SettingsError
from clienthealth.settings import LinkSettings, PrometheusSettings, Settings

UID_PREFIX = "kafka-client-health"
#: Grafana allows no more characters.
UID_LENGTH = 40
#: The runbooks on the status page.
RUNBOOKS = "/runbooks"
_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
#: Labels that our series have a meaning for, or Prometheus has.
_TAKEN = frozenset({
    "broker", "client_id", "cluster_name", "consumer_id", "exporter", "group", "group_type", "host", "instance", "job",
    "kind", "le", "library", "limit", "member_host", "metric", "mode", "of", "pager", "partition", "query", "quiet",
    "reason", "service", "severity", "shard", "source_topic", "stat", "status", "team", "tier", "topic", "version",
})  # fmt: skip


def fixed_labels(settings: Settings) -> Mapping[str, str]:
    """The labels of every series of this installation, without those that are empty. Raises SettingsError."""
    labels = {"cluster": settings.monitor.cluster, **settings.prometheus.labels}
    for name in (*labels, *settings.prometheus.keep_labels):
        if not _NAME.fullmatch(name) or name.startswith("__"):
            raise SettingsError(f"[prometheus] labels: '{name}' is no name of a label")
        if name in _TAKEN:
            raise SettingsError(f"[prometheus] labels: '{name}' is the name of a label that our series have already")
    return {name: value for name, value in labels.items() if value}


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


def served(settings: PrometheusSettings) -> Callable[[bytes], bool]:
    """Tells of the key of a client whether it is served here."""
    if not settings.shard:
        return lambda key: True
    number = int(settings.shard.partition("/")[0])
    return lambda key: place(key, settings) == number


def place(key: bytes, settings: PrometheusSettings) -> int:
    """The number of the shard that serves a client, from 1."""
    return crc32(key) % int(settings.shard.partition("/")[2] or 1) + 1


def named_apart(settings: PrometheusSettings) -> Callable[[Client], bool]:
    """Tells of a client whether it has series of its own in any case."""
    if settings.client_series == "all":
        return lambda client: True
    patterns = settings.named_clients
    return lambda client: any(fnmatchcase(f"{client.service}/{client.client_id}", pattern) for pattern in patterns)


def own_page(settings: Settings, shard: str = "1") -> str:
    """The status page of this installation, of one of its shards, without a trailing slash."""
    labels = {**fixed_labels(settings), "shard": shard}
    return filled(settings.links.status_page.rstrip("/"), lambda name: quote(labels.get(name, ""), safe=""))


def kept_labels(settings: Settings) -> tuple[str, ...]:
    """The labels by which every rule and panel keeps installations apart. One that no series has does no harm."""
    return tuple(dict.fromkeys((*settings.prometheus.keep_labels, *fixed_labels(settings))))


def listed(labels: Sequence[str]) -> str:
    """Labels as `by (…)` has them."""
    return ", ".join(labels)


def matchers(labels: Sequence[str]) -> str:
    """What a query asks of labels that the variables of a dashboard choose."""
    return ", ".join(f'{label}=~"${label}"' for label in labels)


def of_series(labels: Sequence[str]) -> str:
    """Variables of a dashboard's address in a link from a series of a panel, with the series' own values."""
    return "&".join(f"var-{label}=${{__field.labels.{label}:percentencode}}" for label in labels)


def of_row(labels: Sequence[str]) -> str:
    """The same in a link from a row of a table."""
    return "&".join(f"var-{label}=${{__data.fields.{label}:percentencode}}" for label in labels)


def named(labels: Sequence[str]) -> str:
    """What the name of a series says of labels."""
    return " ".join(f"{{{{{label}}}}}" for label in labels)


#: The labels that rules, routes and panels are written with; `keeping` puts those of the settings in their place.
KEPT = kept_labels(Settings())


def keeping(text: str, settings: Settings) -> str:
    """A text in which KEPT, in each of the forms above, is what the settings say. Raises SettingsError."""
    kept = kept_labels(settings)
    if not kept:
        raise SettingsError("[prometheus] keep_labels must name a label at least")
    if kept == KEPT:
        return text
    for form in (listed, matchers, of_series, of_row, named):
        text = text.replace(form(KEPT), form(kept))
    return text
