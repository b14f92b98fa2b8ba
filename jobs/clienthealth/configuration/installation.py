"""Compute the labels of an installation's series and rules, and the URLs to which its alerts link."""

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
#: Grafana's limit on the length of a dashboard's uid.
UID_LENGTH = 40
RUNBOOKS = "/runbooks"
_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
#: Labels that our series or Prometheus already use.
_TAKEN = frozenset({
    "broker", "client_id", "cluster_name", "consumer_id", "exporter", "group", "group_type", "host", "instance", "job",
    "kind", "le", "library", "limit", "member_host", "metric", "mode", "of", "pager", "partition", "query", "quiet",
    "reason", "service", "severity", "shard", "source_topic", "stat", "status", "team", "tier", "topic", "version",
})  # fmt: skip


def fixed_labels(settings: Settings) -> Mapping[str, str]:
    """Return the labels that every series of this installation has: a mapping from name to value.

    Raises SettingsError if a label's name, or a name in `keep_labels`, is invalid or already in use (_TAKEN).
    """
    labels = {"cluster": settings.monitor.cluster, **settings.prometheus.labels}
    for name in (*labels, *settings.prometheus.keep_labels):
        if not _NAME.fullmatch(name) or name.startswith("__"):
            raise SettingsError(f"[prometheus] labels: '{name}' is not a valid label name")
        if name in _TAKEN:
            raise SettingsError(f"[prometheus] labels: our series already have the label '{name}': choose another name")
    return {name: value for name, value in labels.items() if value}


def runbooks(settings: LinkSettings, status_page: str | None = None) -> str:
    """Return the base URL of the runbooks, without a trailing slash. The default is a path below the status page.

    `status_page`: URL of the status page, by default the configured one. The URL '.' makes the links relative.
    """
    page = settings.status_page if status_page is None else status_page
    return settings.runbooks.rstrip("/") or f"{page.rstrip('/')}{RUNBOOKS}"


def filled(address: str, value: Callable[[str], str]) -> str:
    """Replace each label name in braces, as in `https://health-{cluster}.example.org`, by `value(name)`."""
    return re.sub(r"\{(\w+)\}", lambda match: value(match[1]), address)


def dashboard_uid(name: str) -> str:
    """Return Grafana's uid for the dashboard `name`: `kafka-client-health-NAME`, cut to 40 characters."""
    return f"{UID_PREFIX}-{name}"[:UID_LENGTH].rstrip("-")


def served(settings: PrometheusSettings) -> Callable[[bytes], bool]:
    """Return a function that takes a client's key, and returns True if this exporter serves that client."""
    if not settings.shard:
        return lambda key: True
    number = int(settings.shard.partition("/")[0])
    return lambda key: place(key, settings) == number


def place(key: bytes, settings: PrometheusSettings) -> int:
    """Return the number (1 or more) of the shard that serves the client with this key."""
    return crc32(key) % int(settings.shard.partition("/")[2] or 1) + 1


def named_apart(settings: PrometheusSettings) -> Callable[[Client], bool]:
    """Return a function that tells whether a client has series of its own even while it is healthy.

    If `client_series` is "unhealthy", a healthy client has series only if a glob in `named_clients`
    matches `service/client_id`.
    """
    if settings.client_series == "all":
        return lambda client: True
    patterns = settings.named_clients
    return lambda client: any(fnmatchcase(f"{client.service}/{client.client_id}", pattern) for pattern in patterns)


def own_page(settings: Settings, shard: str = "1") -> str:
    """Return the URL of a shard's status page in this installation, without a trailing slash.

    In `[links] status_page`, each label's name in braces is replaced by the label's value, and `{shard}` by the
    argument `shard`. Returns '' if no status page is configured.
    """
    labels = {**fixed_labels(settings), "shard": shard}
    return filled(settings.links.status_page.rstrip("/"), lambda name: quote(labels.get(name, ""), safe=""))


def kept_labels(settings: Settings) -> tuple[str, ...]:
    """Return the names of the labels by which rules and panels distinguish installations.

    Raises SettingsError if there are no such labels, or if a label's name is invalid or already in use (_TAKEN).
    """
    labels = tuple(dict.fromkeys((*settings.prometheus.keep_labels, *fixed_labels(settings))))
    if not labels:
        raise SettingsError("[prometheus] keep_labels must name at least one label")
    return labels


def listed(labels: Sequence[str]) -> str:
    """Join the names of labels by commas, for the parentheses of a `by (…)` clause."""
    return ", ".join(labels)


#: KEPT: the default labels, which alertmanager.yml and the panels of dashboards contain. If `kept_labels` returns
#: other labels for an installation, these labels replace the default labels.
KEPT = kept_labels(Settings())
