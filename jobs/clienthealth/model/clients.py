"""Kafka clients, and the processes in which they run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

import msgspec

Kind = Literal["producer", "consumer", "legacy-consumer", "group"]


@lru_cache(maxsize=4096)
def key_parts(key: str) -> tuple[str, str, str] | None:
    """Split a client's key (`Client.key`) into (service, instance, client id). Returns None if a part is missing."""
    if "\\" not in key:
        parts = key.split("|", 2)
    else:
        parts = [""]
        characters = iter(key)
        for character in characters:
            if character == "|" and len(parts) < 3:
                parts.append("")
            elif character == "\\":
                following = next(characters, "")
                parts[-1] += following if following in ("|", "\\") else character + following
            else:
                parts[-1] += character
    return (parts[0], parts[1], parts[2]) if len(parts) == 3 else None


class Client(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A Kafka client or a consumer group. Each field has its newest known value.

    `host`: the host of the client's process, or the instance if the host is unknown. `instance`: the name of the
    process, such as host:pid or a pod's uid. `client_id`: '' if only the process is known. For a consumer group,
    `library` is `broker`, and `version` is the group's type (classic, …).
    """

    service: str
    host: str
    instance: str
    client_id: str
    kind: Kind | None = None
    library: str | None = None
    version: str | None = None
    group: str | None = None

    @property
    def key(self) -> str:
        r"""Key of the client's Kafka records: service|instance|client_id. In each part, `\` escapes `|` and `\`."""
        key = f"{self.service}|{self.instance}|{self.client_id}"
        if key.count("|") == 2 and "\\" not in key:
            return key
        parts = (self.service, self.instance, self.client_id)
        return "|".join(part.replace("\\", "\\\\").replace("|", "\\|") for part in parts)

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """(service, instance, client id, kind): the fields that never change for a client."""
        return self.service, self.instance, self.client_id, self.kind or ""

    @property
    def names(self) -> tuple[str, str, str, str, str]:
        """(service, host, instance, client id, kind): the fields that name the client."""
        return self.service, self.host, self.instance, self.client_id, self.kind or ""

    @property
    def process(self) -> tuple[str, str]:
        """(service, host) of the client's process. If the host is unknown, the instance takes its place."""
        return self.service, self.host or self.instance

    @property
    def home(self) -> tuple[str, str]:
        """The pair that decides to which bucket a client belongs.

        For a group, the pair is (service, instance + group id). For other clients, the pair is `process`.
        """
        return (self.service, f"{self.instance}\0{self.client_id}") if self.kind == "group" else self.process


@dataclass(frozen=True, slots=True)
class ClientProcess:
    """A process with Kafka clients. `instance`: usually host:pid.

    `config`: client options from an exporter's settings.
    """

    service: str
    host: str
    instance: str
    config: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The Kafka key of records about the whole process, such as log lines: a `Client.key` without client id."""
        return self.client("").key

    def client(
        self,
        client_id: str,
        kind: Kind | None = None,
        library: str | None = None,
        version: str | None = None,
        group: str | None = None,
    ) -> Client:
        """Return a `Client` of this process with the given fields."""
        return Client(self.service, self.host, self.instance, client_id, kind, library, version, group)
