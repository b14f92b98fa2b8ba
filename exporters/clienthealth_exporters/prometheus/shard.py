"""Which clients an exporter serves, where several share a fleet: a hash of the key decides, and nothing moves."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from zlib import crc32

from clienthealth.model.clients import Client
from clienthealth.settings import PrometheusSettings


def owner(settings: PrometheusSettings) -> Callable[[bytes], bool]:
    """Tells of the key of a client whether it is served here."""
    if not settings.shard:
        return lambda key: True
    number = int(settings.shard.partition("/")[0])
    return lambda key: place(key, settings) == number


def place(key: bytes, settings: PrometheusSettings) -> int:
    """The number of the shard that serves a client, from 1."""
    return crc32(key) % int(settings.shard.partition("/")[2] or 1) + 1


def namer(settings: PrometheusSettings) -> Callable[[Client], bool]:
    """Tells of a client whether it has series of its own in any case."""
    if settings.client_series == "all":
        return lambda client: True
    patterns = settings.named_clients
    return lambda client: any(fnmatchcase(f"{client.service}/{client.client_id}", pattern) for pattern in patterns)
