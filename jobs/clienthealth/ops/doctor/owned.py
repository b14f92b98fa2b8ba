"""Check the owners of services: report services without an owner, and owners of services that send no data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase

from clienthealth.configuration.owners import Owners, read_owners
from clienthealth.model.clients import Client
from clienthealth.model.errors import HealthError, RecordError
from clienthealth.model.health_record import decode
from clienthealth.model.wording import listing
from clienthealth.ops.doctor import Finding
from clienthealth.ops.doctor.records import newest
from clienthealth.settings import Settings

ABOUT = "owners"
#: Number of newest records of client-health to examine. Most fleets have fewer clients than this number.
NEWEST = 20_000
_NAMED = 8


def owners_known(settings: Settings) -> Iterator[Finding]:
    """Compare the owners in `[owners] files` with the services and groups in the newest records of client-health."""
    if not (files := settings.owners.files):
        yield Finding(ABOUT, "skipped", "[owners] files is not set, so every alert takes the default route.")
        return
    try:
        owners = read_owners(files)
    except HealthError as error:
        yield Finding(ABOUT, "failed", f"{error}.")
        return
    try:
        records, trouble = newest(settings, settings.topics.health, NEWEST)
    except HealthError as error:
        records, trouble = [], str(error)
    clients = []
    for record in records:
        # Skip unreadable records without a finding, because the Prometheus exporter already reports their number.
        with suppress(RecordError):
            clients += [decode(bytes(record.value)).client] if record.value is not None else []
    if trouble:
        yield Finding(ABOUT, "skipped", f"The list of reporting services is incomplete: {trouble}.")
    elif not clients:
        yield Finding(ABOUT, "skipped", f"No service has reported yet: {settings.topics.health} is empty.")
    else:
        yield from compared(owners, clients)


def compared(owners: Owners, clients: Sequence[Client]) -> Iterator[Finding]:
    """Report the services in `clients` that have no owner, and owners that match no service or group in `clients`."""
    services = sorted({client.service for client in clients if client.kind != "group"})
    groups = {client.group or (client.client_id if client.kind == "group" else "") for client in clients} - {""}
    alone = [service or "(no name)" for service in services if owners.owner_of(service) is None]
    idle = [
        row.place
        for row in owners.rows
        if not any(fnmatchcase(name, glob) for glob in row.services for name in services)
        and not any(fnmatchcase(name, glob) for glob in row.groups for name in groups)
    ]
    if alone:
        text = f"{len(alone)} of {len(services)} reporting services have no owner"
        yield Finding(ABOUT, "warning", f"{text}, so their alerts take the default route: {listing(alone, _NAMED)}.")
    if idle:
        yield Finding(ABOUT, "warning", f"These owners match no reporting service or group: {listing(idle, _NAMED)}.")
    if not alone and not idle:
        yield Finding(ABOUT, "ok", f"All {len(services)} reporting services have an owner.")
