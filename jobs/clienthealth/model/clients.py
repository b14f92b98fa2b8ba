"""Who reports: a client within a process of a service."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

Kind = Literal["producer", "consumer", "legacy-consumer", "group"]


def escaped(part: str) -> str:
    """A part of a client's key in which `|` does not separate."""
    return part.replace("\\", "\\\\").replace("|", "\\|") if "|" in part or "\\" in part else part


@lru_cache(maxsize=4096)
def key_parts(key: str) -> tuple[str, str, str] | None:
    """The inverse of `Client.key`: service, instance and client id; None where a key is of another shape."""
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


@dataclass(frozen=True, slots=True)
class Client:
    """Who reports. `instance` names the process (host:pid, pod uid); `client_id` is empty where only it is known.

    A consumer group: `library` is what reads it (broker), `version` its type (classic, consumer, streams, share, …).
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
        """The key of the client on every topic: service|instance|client_id, `|` and `\\` in them escaped by `\\`."""
        return "|".join(map(escaped, (self.service, self.instance, self.client_id)))


@dataclass(frozen=True, slots=True)
class ClientProcess:
    """The process of clients. `instance`: host:pid; `config`: options of its clients that are known from elsewhere."""

    service: str
    host: str
    instance: str
    config: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The key of what is of the process and no single client: its log lines and dumps."""
        return self.client("").key

    def client(
        self,
        client_id: str,
        kind: Kind | None = None,
        library: str | None = None,
        version: str | None = None,
        group: str | None = None,
    ) -> Client:
        """A client of the process."""
        return Client(self.service, self.host, self.instance, client_id, kind, library, version, group)
