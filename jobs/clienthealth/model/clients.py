"""Who reports: a client within a process of a service."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

import msgspec

Kind = Literal["producer", "consumer", "legacy-consumer", "group"]


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


class Client(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A client as it named itself last: the one type for it, from the packer to the page; tables hold its row number.

    `host`: where its process runs, its instance where no host is known. `instance` names the process (host:pid, pod
    uid); `client_id` is empty where only that is known.
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
        key = f"{self.service}|{self.instance}|{self.client_id}"
        if key.count("|") == 2 and "\\" not in key:
            return key
        parts = (self.service, self.instance, self.client_id)
        return "|".join(part.replace("\\", "\\\\").replace("|", "\\|") for part in parts)

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """What stays the same as long as it is the same client."""
        return self.service, self.instance, self.client_id, self.kind or ""

    @property
    def names(self) -> tuple[str, str, str, str, str]:
        """Its process and what tells it from others of that process."""
        return self.service, self.host, self.instance, self.client_id, self.kind or ""

    @property
    def process(self) -> tuple[str, str]:
        """Service and host of its process."""
        return self.service, self.host or self.instance

    @property
    def home(self) -> tuple[str, str]:
        """What it shares a bucket and a fault with: its process. A consumer group has none and stands alone."""
        return (self.service, f"{self.instance}\0{self.client_id}") if self.kind == "group" else self.process


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
