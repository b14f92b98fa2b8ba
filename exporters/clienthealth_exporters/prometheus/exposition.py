"""The page /metrics in Prometheus' text format (0.0.4).

A record's lines are made only once, because making all lines at each scrape would take seconds.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from sys import intern
from typing import NamedTuple

from clienthealth.configuration.installation import fixed_labels
from clienthealth.model.clients import Client
from clienthealth.model.health_record import HealthRecord
from clienthealth.settings import Settings
from clienthealth_exporters.prometheus.series import FAMILIES, SCOPES, Family, Sample

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_BLOCK_CLIENTS = 1_000
_NOTHING = ("",) * len(FAMILIES)


_BY_INDICATOR: defaultdict[str, list[tuple[int, Family]]] = defaultdict(list)
for _position, _family in enumerate(FAMILIES):
    _BY_INDICATOR[_family.needs].append((_position, _family))


@dataclass(frozen=True, slots=True)
class Lines:
    """The lines of one health record on the page /metrics, split into parts.

    A line such as `kafka_client_up{service="orders",…} 1` has three parts: `kafka_client_up{`, the labels of the
    metric's scope, and the end.

    `client`     the labels of the scope "client"
    `group`      the labels of the scope "group"
    `partition`  the labels of the scope "partition"
    `ends`       one text for each metric in `FAMILIES`: the joined ends of all lines of the metric
    """

    client: str
    group: str
    partition: str
    ends: tuple[str, ...]


class Shown(NamedTuple):
    """A health record's lines for the page /metrics. Flags say which of these lines the page contains.

    `group`     True if the page contains the record's metrics about a consumer group (scope "group")
    `whole`     True if the page contains the record's ordinary metrics (`Family.evidence` is False)
    `evidence`  True if the page contains the record's metrics on which verdicts depend (`Family.evidence` is True)
    """

    lines: Lines
    group: bool
    whole: bool = True
    evidence: bool = False

    def has(self, family: Family) -> bool:
        """True if the page contains the lines of metric `family` for this object's record."""
        if family.evidence:
            return self.evidence
        return (self.whole or family.always) and (self.group or family.scope != "group")


def group_of(client: Client) -> str:
    """Return the name of the client's group, '' for none. A client of kind `group` is itself the group."""
    return client.group or (client.client_id if client.kind == "group" else "")


def beginning(settings: Settings) -> str:
    """Return the labels with which every series begins: the installation's labels, and `shard`."""
    shard = settings.prometheus.shard
    labels = {**fixed_labels(settings), **({"shard": shard} if shard else {})}
    return "".join(f"{_pairs((name,), (value,))}," for name, value in labels.items())


def lines(record: HealthRecord, cluster: str, begin: str = "") -> Lines:
    """Return a health record's lines for the page /metrics.

    `cluster`: value of the label `cluster_name` for a client. `begin`: the labels with which every series begins.
    """
    client = record.client
    if client.kind == "group":
        cluster = client.instance
    ends = list(_NOTHING)
    # An empty list or mapping means unknown, but 0 is a value.
    known = [name for name, value in record.indicators.items() if value or type(value) not in (list, dict)]
    for name in ("", *known):
        for position, family in _BY_INDICATOR.get(name, ()):
            if samples := family.read(record):
                one = f"}} {_value(samples[0][1])}\n"
                ends[position] = _several(family.extra, samples) if family.extra else one
    ref = (client.service, client.host, client.instance, client.client_id)
    group = (cluster, group_of(client), *((client.version,) if client.kind == "group" and client.version else ()))
    return Lines(
        f"{begin}{_pairs(SCOPES['client'], ref)}",
        intern(f"{begin}{labels_text(SCOPES['group'][: len(group)], group)}"),
        intern(f"{begin}{labels_text(SCOPES['partition'], (cluster,))}"),
        tuple(ends),
    )


def page(shown: Sequence[Shown], cap: int, dropped: MutableMapping[str, int]) -> Iterator[str]:
    """Yield the clients' lines of the page /metrics in blocks of text, metric by metric.

    The page contains at most `cap` series of each metric. `dropped`: receives the number of series left out, by metric.
    """
    for index, family in enumerate(FAMILIES):
        blocks = _once if family.scope == "partition" else _each
        first = True
        for block in blocks(index, family, shown, cap, dropped):
            yield f"{_head(family)}{block}" if first else block
            first = False


def _each(
    index: int, family: Family, shown: Sequence[Shown], cap: int, dropped: MutableMapping[str, int]
) -> Iterator[str]:
    """Yield at most `cap` lines of a metric. Add the number of lines left out to `dropped`."""
    block: list[str] = []
    for one in shown:
        of_record = one.lines
        ends = of_record.ends[index]
        if not ends or not one.has(family):
            continue
        count = ends.count("\n")
        if count > cap:
            dropped[family.name] = dropped.get(family.name, 0) + count
            continue
        cap -= count
        begin = f"{family.name}{{{getattr(of_record, family.scope)}"
        block.append(f"{begin}{ends}" if count == 1 else f"{begin}{ends[:-1].replace(chr(10), chr(10) + begin)}\n")
        if len(block) == _BLOCK_CLIENTS:
            yield "".join(block)
            block.clear()
    if block:
        yield "".join(block)


def _once(
    index: int, family: Family, shown: Sequence[Shown], cap: int, dropped: MutableMapping[str, int]
) -> Iterator[str]:
    """Yield one line of the metric for each partition. If several records report a partition, the last one is used."""
    values: dict[str, str] = {}
    for of_record, _, whole, _ in shown:
        for end in (of_record.ends[index] if whole else "").split("\n")[:-1]:
            extra, _, value = end.rpartition(" ")
            series = f"{family.name}{{{of_record.partition}{extra}"
            if series in values or len(values) < cap:
                values[series] = value
            else:
                dropped[family.name] = dropped.get(family.name, 0) + 1
    if values:
        yield "".join(f"{series} {value}\n" for series, value in values.items())


def rendered(family: Family, samples: Iterable[Sample], begin: str = "") -> str:
    """Return the text of a metric about services or the exporter.

    `begin`: the labels with which every series begins.
    """
    lines = [_head(family)]
    for labels, value in samples:
        inside = f"{begin}{labels_text(family.labels, labels)}".rstrip(",")
        lines.append(f"{family.name}{f'{{{inside}}}' if inside else ''} {_value(value)}\n")
    return "".join(lines)


def _pairs(names: tuple[str, ...], values: tuple[str, ...]) -> str:
    return ",".join([f'{name}="{value.translate(_ESCAPES)}"' for name, value in zip(names, values, strict=True)])


@functools.lru_cache(maxsize=20_000)
def labels_text(names: tuple[str, ...], values: tuple[str, ...]) -> str:
    """Return labels as escaped `name="value"` pairs, joined by commas."""
    return _pairs(names, values)


def _head(family: Family) -> str:
    return f"# HELP {family.name} {family.help}\n# TYPE {family.name} {family.kind}\n"


@functools.lru_cache(maxsize=20_000)
def _several(names: tuple[str, ...], samples: tuple[Sample, ...]) -> str:
    """Return the ends of the samples' lines, joined. An end is all that follows the labels of the metric's scope."""
    return "".join([f",{labels_text(names, extra)}}} {_value(value)}\n" for extra, value in dict(samples).items()])


def _value(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
