"""How the sections write clients, services and other names of others."""

from __future__ import annotations

from clienthealth.review.document import Inline, Name, Soft
from clienthealth.review.model import ClientRow, Incident

NAMELESS = "(no client id)"


def client(row: ClientRow | Incident) -> Inline:
    """A client, with its service and its process."""
    return Name(row.client_id or NAMELESS), " ", Soft((Name(row.service), " · ", Name(row.instance)))


def service(name: str) -> Inline:
    """A service, also one that has no name."""
    return Name(name or "(no name)")


def names(texts: tuple[str, ...]) -> Inline:
    """Names of others, with commas between."""
    return tuple(part for name in texts for part in (", ", Name(name)))[1:]
