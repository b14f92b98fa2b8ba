"""The exporter's metrics, from series.toml: names, labels, help, and where the values come from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import msgspec

from clienthealth.measure.lag_state import STATE_ORDER
from clienthealth.model.health_record import HealthRecord, amount
from clienthealth.model.tables import table

#: A sample: (values of the metric's extra labels, value).
Sample = tuple[tuple[str, ...], float]
CLIENT = ("service", "host", "instance", "client_id")
#: Metrics with `Family.evidence` exist for at most this number of healthy clients of the same service and kind.
PEERS = 5
Scope = Literal["client", "group", "partition", "service", "exporter"]
SCOPES: Mapping[Scope, tuple[str, ...]] = {
    "client": CLIENT,
    # `group_type` is the protocol type, such as `connect`, if the members are not consumers.
    "group": ("cluster_name", "group", "group_type"),
    "partition": ("cluster_name",),
    "service": ("service",),
    "exporter": (),
}


class Family(msgspec.Struct, frozen=True, dict=True, forbid_unknown_fields=True):
    """A metric.

    `extra`      the metric's own labels, which are added to the labels of the scope
    `indicator`  path of the value in a record's indicators, with a dot between two levels
    `stats`      keys of the numbers to read from the mapping at `indicator`. Each number becomes a sample, and the
                 number's key becomes the value of the label in `extra`
    `nonzero`    True if a series exists only while the value is not 0
    `lag`        key of the value in a row of the indicator `lag`, which has one row per partition
    `reads`      name of the function that computes the samples from a record; the name is a key of `READS`
    `onset`      id of a failure mode. While the client has this failure, the time (s) since the onset replaces a
                 smaller or unknown value
    `detail`     "mode.name": the value is the number `name` in the detail of the client's verdict on `mode`
    `evidence`   True if verdicts on a failure mode depend on the metric
    `largest`    name of a metric of clients; the value of a service is the metric's maximum over the service's clients
    `at`         values of the extra labels of the metric that `largest` names. Only series with these values count for
                 the maximum. If `at` is None, all series count
    """

    name: str
    help: str
    scope: Scope
    extra: tuple[str, ...] = ()
    indicator: str = ""
    stats: tuple[str, ...] = ()
    nonzero: bool = False
    lag: str = ""
    reads: str = ""
    onset: str = ""
    detail: str = ""
    evidence: bool = False
    largest: str = ""
    at: tuple[str, ...] | None = None

    @property
    def kind(self) -> str:
        """The metric's type in Prometheus: counter if the name ends with `_total`, else gauge."""
        return "counter" if self.name.endswith("_total") else "gauge"

    @property
    def labels(self) -> tuple[str, ...]:
        """All labels of the metric, in the order of /metrics."""
        return SCOPES[self.scope] + self.extra

    @property
    def needs(self) -> str:
        """The indicator that a record needs for samples of this metric; '' for none."""
        return "lag" if self.lag else "" if self.onset else self.indicator.partition(".")[0]

    @cached_property
    def always(self) -> bool:
        """True if the metric is served for every group, even for a healthy one."""
        return self.scope == "group" and self.needs == "group"

    @cached_property
    def read(self) -> Callable[[HealthRecord], tuple[Sample, ...]]:
        """The function that returns a record's samples of this metric."""
        path, labels = self.indicator.split("."), [((stat,), stat) for stat in self.stats]

        def number(record: HealthRecord) -> tuple[Sample, ...]:
            value: Any = record.indicators
            for name in path:
                if type(value) is not dict:
                    return ()
                value = value.get(name)
            known = amount(value)
            return () if known is None or (self.nonzero and not known) else (((), known),)

        def numbers(record: HealthRecord) -> tuple[Sample, ...]:
            values = record.indicators.get(self.indicator)
            if type(values) is not dict:
                return ()
            return tuple([(label, known) for label, stat in labels if (known := amount(values.get(stat))) is not None])

        def since_onset(record: HealthRecord) -> tuple[Sample, ...]:
            onsets = [v.since_ms for v in record.verdicts if v.mode == self.onset and v.unhealthy and v.since_ms]
            ages = [(record.seen_ms - since) / 1000 for since in onsets]
            known = [sample for _, sample in number(record)] + ages
            return (((), max(known)),) if known else ()

        mode, _, detail = self.detail.partition(".")

        def of_failure(record: HealthRecord) -> tuple[Sample, ...]:
            details = [v.detail.get(detail) for v in record.verdicts if v.mode == mode and v.unhealthy]
            return _known(((), amount(value[-1] if isinstance(value, list) and value else value)) for value in details)

        def of_partitions(record: HealthRecord) -> tuple[Sample, ...]:
            samples: list[Sample] = []
            for row in record.rows("lag"):
                value, partition = amount(row.get(self.lag)), amount(row.get("partition"))
                if value is not None and partition is not None:
                    member: tuple[str, ...] = ()
                    if self.scope == "group" and record.client.kind == "group":
                        seen = row.get("member")
                        named = seen if isinstance(seen, dict) else {}
                        member = tuple([str(named.get(name) or "") for name in ("host", "consumer_id", "client_id")])
                    elif self.scope == "group":
                        member = record.client.host, "", record.client.client_id
                    samples.append(((row["topic"], str(int(partition)), *member), value))
            return tuple(samples)

        if self.reads or self.onset:
            return READS[self.reads] if self.reads else since_onset
        return of_partitions if self.lag else of_failure if detail else numbers if self.stats else number


def _known(samples: Iterable[tuple[tuple[str, ...], float | None]]) -> tuple[Sample, ...]:
    return tuple([(labels, value) for labels, value in samples if value is not None])


def _slowest_broker(record: HealthRecord) -> tuple[Sample, ...]:
    broker = amount(record.value("slowest_broker", "id"))
    seconds = amount(record.value("slowest_broker", "latency_seconds"))
    return () if broker is None or seconds is None else (((str(int(broker)),), seconds),)


def _topic_lag(record: HealthRecord) -> tuple[Sample, ...]:
    sums: dict[str, float] = {}
    for row in record.rows("lag") if record.client.kind == "group" else ():
        if (records := amount(row.get("records"))) is not None:
            sums[row["topic"]] = sums.get(row["topic"], 0) + records
    return tuple([((topic,), records) for topic, records in sums.items()])


READS: Mapping[str, Callable[[HealthRecord], tuple[Sample, ...]]] = {
    "up": lambda r: () if r.stale else (((), int(not r.departed)),),
    "last_seen": lambda r: (((), r.seen_ms / 1000),),
    "info": lambda r: (((r.client.library or "", r.client.version or "", r.client.kind or ""), 1),),
    "failure_mode": lambda r: tuple([((v.mode, v.status), 1) for v in r.verdicts if v.status != "ok"]),
    "failure_mode_since": lambda r: tuple(
        [((v.mode,), since / 1000) for v in r.verdicts if v.unhealthy and (since := amount(v.since_ms)) is not None]
    ),
    "clock_skew": lambda r: _known([((), r.value("clock", "skew_seconds"))]),
    "slowest_broker": _slowest_broker,
    "queues": lambda r: _known(
        ((queue["topic"],), amount(queue.get("used_ratio")))
        for queue in (r.rows("queues") if r.client.kind in ("consumer", "legacy-consumer") else ())
    ),
    "topic_rates": lambda r: _known(((e["topic"],), amount(e.get("consumed_rate"))) for e in r.rows("topic_rates")),
    "topic_lag": _topic_lag,
    "status": lambda r: (((word,), 1),) if (word := r.text("group", "status")) in STATE_ORDER else (),
}
_TABLE = table(Path(__file__).with_suffix(".toml"))
METRICS: Mapping[str, Family] = {
    name: msgspec.convert({"name": name, "scope": scope, **row}, Family)
    for scope, rows in _TABLE.items()
    for name, row in rows.items()
}
ALL_FAMILIES = tuple(METRICS.values())
FAMILIES = tuple(METRICS[name] for scope in ("client", "group", "partition") for name in _TABLE[scope])
#: The name of a metric that every client and group has.
EVERYBODY = FAMILIES[0].name
