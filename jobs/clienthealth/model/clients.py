"""Who reports: a client within a process of a service."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["producer", "consumer", "legacy-consumer", "group"]


def escaped(part: str) -> str:
    """A part of a client's key in which `|` does not separate."""
    return part.replace("\\", "\\\\").replace("|", "\\|") if "|" in part or "\\" in part else part


@dataclass(frozen=True, slots=True)
class Client:
    """Who reports. `instance` names the process (host:pid, pod uid); `client_id` is empty where only it is known."""

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
