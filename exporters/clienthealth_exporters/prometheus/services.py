"""Metrics of each service: clients by state, and the worst client's measurements."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from clienthealth.configuration.owners import Owner, Owners
from clienthealth.model.health_record import HealthRecord, amount
from clienthealth.modes.advisories import advised
from clienthealth_exporters.prometheus.series import ALL_FAMILIES, METRICS, Family, Sample

if TYPE_CHECKING:
    from clienthealth_exporters.prometheus.states import State

STANDINGS = ("ok", "partial", "unknown", "suspected", "confirmed", "gone")
#: Maximum number of combinations of kind, library and version per service.
VERSIONS = 20
WORST = [family for family in ALL_FAMILIES if family.largest]


def standing(record: HealthRecord) -> str:
    """Return the state (one of `STANDINGS`) of a client in its service's metrics.

    A group that has not gone is `unknown`. The metrics of services do not count groups.
    """
    if record.departed:
        return "gone"
    return "unknown" if record.stale or record.client.kind == "group" else record.standing


def largest(record: HealthRecord) -> tuple[float | None, ...]:
    """Return the client's value of each metric in `WORST`.

    A value is None if it is unknown, or if the client has gone.
    """
    if record.departed:
        return (None,) * len(WORST)
    return tuple([
        max((value for labels, value in METRICS[one.largest].read(record) if one.at in (None, labels)), default=None)
        for one in WORST
    ])  # fmt: skip


def sent(record: HealthRecord) -> float | None:
    """Return a producer's sent records per second. None if unknown, or if the client is stale or gone."""
    return None if record.departed or record.stale else amount(record.value("record_send_rate"))


def samples(states: Iterable[State]) -> Iterator[tuple[Family, list[Sample]]]:
    """Yield each metric of services with its samples. Consumer groups are left out, because they are not clients."""
    clients = [state for state in states if state.client.kind != "group"]
    alike = Counter([(state.client.service, state.standing, state.statuses) for state in clients])
    standings: Counter[tuple[str, str]] = Counter()
    failures: Counter[tuple[str, str, str]] = Counter()
    for (service, standing, statuses), number in alike.items():
        standings[service, standing] += number
        for mode, status in statuses:
            failures[service, mode, status] += number
    services = sorted({service for service, _ in standings})
    by_standing: list[Sample] = [((one, word), standings[one, word]) for one in services for word in STANDINGS]
    yield METRICS["kafka_client_service_clients"], by_standing
    yield METRICS["kafka_client_service_failure_mode_clients"], sorted(failures.items())
    yield METRICS["kafka_client_service_version_clients"], _versions(clients)
    there = (state.client for state in clients if not state.departed)
    buggy = Counter(one.service for one in there if advised(one.library, one.version, one.kind).bugs)
    yield METRICS["kafka_client_service_known_bug_clients"], [((one,), number) for one, number in sorted(buggy.items())]
    rows: defaultdict[str, list[tuple[float | None, ...]]] = defaultdict(list)
    for state in clients:
        rows[state.client.service].append(state.largest)
    columns = {
        service: [[value for value in column if value is not None] for column in zip(*rows[service], strict=True)]
        for service in services
    }
    for position, family in enumerate(WORST):
        yield family, [((one,), max(values)) for one in services if (values := columns[one][position])]
    rates: defaultdict[str, float] = defaultdict(float)
    for state in clients:
        if state.sent is not None:
            rates[state.client.service] += state.sent
    of_services: list[Sample] = [((service,), rate) for service, rate in sorted(rates.items())]
    yield METRICS["kafka_client_service_producer_record_send_rate"], of_services


def _versions(clients: Iterable[State]) -> list[Sample]:
    """Return the number of clients by service, kind, library, version and state. Rare versions count as "other"."""
    running: Counter[tuple[str, ...]] = Counter()
    by_service: defaultdict[str, Counter[tuple[str, ...]]] = defaultdict(Counter)
    for state in clients:
        client = state.client
        program = client.kind or "", client.library or "", client.version or ""
        running[client.service, *program, state.standing] += 1
        by_service[client.service][program] += 1
    shown = {
        (service, *program) for service, programs in by_service.items() for program, _ in programs.most_common(VERSIONS)
    }
    counted: Counter[tuple[str, ...]] = Counter()
    for (service, kind, *version, standing), number in running.items():
        named = version if (service, kind, *version) in shown else ("", "other")
        counted[service, kind, *named, standing] += number
    return sorted(counted.items())


def owners_of(states: Iterable[State], owners: Owners, cluster: str) -> Iterator[tuple[Family, list[Sample]]]:
    """Yield the metrics on the owners of services and groups. Yield nothing if no owners are configured.

    `cluster`: the cluster name of groups that are known only from their members.
    """
    if not owners.rows:
        return
    services: dict[str, Owner] = {}
    groups: dict[tuple[str, str], Owner] = {}
    members: dict[str, Owner] = {}
    samples: list[tuple[str, str]] = []
    for state in states:
        client = state.client
        owner = owners.owner_of(client.service)
        if owner and client.kind != "group":
            services[client.service] = owner
            members.setdefault(state.group, owner)
        if state.group:
            samples.append((client.instance if client.kind == "group" else cluster, state.group))
            if owner:
                groups.setdefault(samples[-1], owner)
    for key in samples:
        if named := owners.of_group(key[1]) or members.get(key[1]):
            groups[key] = named
    owned = sorted(services.items())
    targets: list[Sample] = [((service,), owner.slo_target) for service, owner in owned if owner.slo_target is not None]
    of_groups: list[Sample] = [((*key, *owner.labels), 1) for key, owner in sorted(groups.items())]
    yield METRICS["kafka_client_owner_info"], [((service, *owner.labels), 1) for service, owner in owned]
    yield METRICS["kafka_client_service_slo_target_ratio"], targets
    yield METRICS["kafka_consumergroup_owner_info"], of_groups
