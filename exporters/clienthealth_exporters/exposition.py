"""Prometheus text format (0.0.4), made in pieces: a client's lines are written when its record arrives, not per scrape.

prometheus-client builds and prints every sample at each scrape; with 12,000 partitions that is 90,000 lines and takes
seconds (tests/bench/bench_scrape.py prints both). Here a scrape joins what is ready.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from clienthealth_exporters.health_record import HealthRecord
from clienthealth_exporters.series import FAMILIES, SCOPES, Family, Sample

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


@dataclass(frozen=True, slots=True)
class Piece:
    """The lines that one record adds to one metric. `lines`: series (with labels) → line."""

    family: Family
    count: int
    text: str


@dataclass(frozen=True, slots=True)
class Pieces:
    """All that a record adds to the page; `shared` are series that several records speak of (partitions)."""

    own: tuple[Piece, ...]
    shared: tuple[tuple[Family, str, str], ...]


@dataclass(frozen=True, slots=True)
class Page:
    """The rendered metrics of all clients, and how many series of which metric were left out."""

    text: str
    dropped: Mapping[str, int]


def pieces(record: HealthRecord, cluster: str) -> Pieces:
    """The lines of a record. `cluster`: label cluster_name of clients that do not say it; groups do, by instance."""
    client = record.client
    if client.kind == "group":
        cluster = client.instance
    scopes = {
        "client": (client.service, client.host, client.instance, client.client_id),
        "group": (cluster, client.group or (client.client_id if client.kind == "group" else "")),
        "partition": (cluster,),
    }
    prefixes = {scope: labels_text(SCOPES[scope], values) for scope, values in scopes.items()}
    own: list[Piece] = []
    shared: list[tuple[Family, str, str]] = []
    for family in FAMILIES:
        found = {_series(family, prefixes[family.scope], extra): value for extra, value in family.read(record)}
        if family.scope == "partition":
            shared += [(family, series, line(series, value)) for series, value in found.items()]
        elif found:
            own.append(Piece(family, len(found), "".join(line(s, v) for s, v in found.items())))
    return Pieces(tuple(own), tuple(shared))


def page(parts: Iterable[Pieces], cap: int) -> Page:
    """The page of all clients. Of a metric with more than `cap` series the first ones in the order given stay."""
    texts: dict[str, list[str]] = {family.name: [] for family in FAMILIES}
    counts = dict.fromkeys(texts, 0)
    dropped: dict[str, int] = {}
    shared: dict[str, dict[str, str]] = {family.name: {} for family in FAMILIES if family.scope == "partition"}
    for part in parts:
        for piece in part.own:
            name = piece.family.name
            if counts[name] + piece.count > cap:
                dropped[name] = dropped.get(name, 0) + piece.count
            else:
                counts[name] += piece.count
                texts[name].append(piece.text)
        for family, series, text in part.shared:
            known = shared[family.name]
            if series in known or len(known) < cap:
                known[series] = text
            else:
                dropped[family.name] = dropped.get(family.name, 0) + 1
    for name, lines in shared.items():
        texts[name].extend(lines.values())
    body = [headed(family, texts[family.name]) for family in FAMILIES if texts[family.name]]
    return Page("".join(body), dropped)


def headed(family: Family, lines: Sequence[str]) -> str:
    """A metric with its HELP and TYPE."""
    return f"# HELP {family.name} {family.help}\n# TYPE {family.name} {family.kind}\n{''.join(lines)}"


def rendered(family: Family, samples: Iterable[Sample]) -> str:
    """A metric without scope labels, from its samples."""
    return headed(family, [line(_series(family, "", extra), value) for extra, value in samples])


def line(series: str, value: float) -> str:
    """A line of the page."""
    return f"{series} {int(value) if value == int(value) else value!r}\n"


def labels_text(names: Sequence[str], values: Sequence[str]) -> str:
    """`name="value"` pairs, escaped."""
    return ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in zip(names, values, strict=True))


def _series(family: Family, prefix: str, extra: Sequence[str]) -> str:
    labels = ",".join(part for part in (prefix, labels_text(family.extra, extra)) if part)
    return f"{family.name}{{{labels}}}" if labels else family.name
