"""The series that clients have in Prometheus: the one table of names, labels, help and where the values come from.

Rules, dashboards and the documentation take the names from here. Base units; `_total` on counters alone; a value
that is unknown has no line. The names of the consumer group metrics, and their labels, are those of
kafka-lag-exporter, so that dashboards and autoscalers made for it go on working.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from clienthealth.configuration.owners import OWNER_LABELS
from clienthealth.measure.lag_state import STATE_ORDER
from clienthealth.model.health_record import HealthRecord, amount

#: Extra label values and the sample.
Sample = tuple[tuple[str, ...], float]


class Source(NamedTuple):
    """Where the series of a metric come from: `read` gives the values of extra labels with the sample of each.

    `needs`: the indicator without which a record says nothing of the metric; '' where any record does.
    """

    needs: str
    read: Callable[[HealthRecord], tuple[Sample, ...]]


#: The labels of a client's series.
CLIENT = ("service", "host", "instance", "client_id")
Scope = Literal["client", "group", "partition", "service", "exporter"]
#: The labels that identify what a series speaks of. The fixed labels of the installation come before them.
SCOPES: Mapping[Scope, tuple[str, ...]] = {
    "client": CLIENT,
    # The type: classic, consumer, streams, share; of what commits nothing its protocol (connect).
    "group": ("cluster_name", "group", "group_type"),
    "partition": ("cluster_name",),
    "service": ("service",),
    "exporter": (),
}
_MEMBER = ("topic", "partition", "member_host", "consumer_id", "client_id")


#: The source of metrics of the exporter itself.
NOT_OF_CLIENTS = Source("", lambda record: ())


@dataclass(frozen=True, slots=True)
class Family:
    """A metric: its labels are those of its scope and the extra ones that the samples of its source have.

    `always`: served of every group, also where series of their own are for those in trouble alone.
    """

    name: str
    help: str
    scope: Scope
    extra: tuple[str, ...]
    source: Source = NOT_OF_CLIENTS
    kind: Literal["gauge", "counter"] = "gauge"
    always: bool = False

    @property
    def labels(self) -> tuple[str, ...]:
        """All labels of the metric, in their order."""
        return SCOPES[self.scope] + self.extra

    def read(self, record: HealthRecord) -> tuple[Sample, ...]:
        """What a record says of the metric."""
        return self.source.read(record) if not self.source.needs or self.source.needs in record.indicators else ()


def _one(value: float | None) -> tuple[Sample, ...]:
    return () if value is None else (((), value),)


def _indicator(*path: str) -> Source:
    *parents, name = path

    def read(record: HealthRecord) -> tuple[Sample, ...]:
        indicator: Any = record.indicators
        for parent in parents:
            indicator = indicator[parent]
            if type(indicator) is not dict:
                return ()
        return _one(amount(indicator.get(name)))

    return Source(path[0], read)


def _some(name: str) -> Source:
    """An indicator that is 0 of nearly all clients nearly always: it has a series while it is not."""

    def read(record: HealthRecord) -> tuple[Sample, ...]:
        return _one(amount(record.indicators[name]) or None)

    return Source(name, read)


def _stats(name: str, *stats: str) -> Source:
    labels = [((stat,), stat) for stat in stats]

    def read(record: HealthRecord) -> tuple[Sample, ...]:
        indicator = record.indicators[name]
        if type(indicator) is not dict:
            return ()
        return tuple([(label, value) for label, stat in labels if (value := amount(indicator.get(stat))) is not None])

    return Source(name, read)


def _slowest_broker(record: HealthRecord) -> tuple[Sample, ...]:
    broker = amount(record.value("slowest_broker", "id"))
    seconds = amount(record.value("slowest_broker", "latency_seconds"))
    return () if broker is None or seconds is None else (((str(int(broker)),), seconds),)


def _since(record: HealthRecord) -> tuple[Sample, ...]:
    onsets = [(verdict.mode, amount(verdict.since_ms)) for verdict in record.verdicts if verdict.unhealthy]
    return tuple([((mode,), since / 1000) for mode, since in onsets if since is not None])


def _queues(record: HealthRecord) -> tuple[Sample, ...]:
    if record.client.kind not in ("consumer", "legacy-consumer"):
        return ()
    ratios = [(queue["topic"], amount(queue.get("used_ratio"))) for queue in record.rows("queues")]
    return tuple([((topic,), ratio) for topic, ratio in ratios if ratio is not None])


def _lag(field: str, of_member: bool = True) -> Source:
    def read(record: HealthRecord) -> tuple[Sample, ...]:
        samples: list[Sample] = []
        for row in record.rows("lag"):
            value, partition = amount(row.get(field)), amount(row.get("partition"))
            if value is not None and partition is not None:
                member = _member(record, row.get("member")) if of_member else ()
                samples.append(((row["topic"], str(int(partition)), *member), value))
        return tuple(samples)

    return Source("lag", read)


def _member(record: HealthRecord, member: Any) -> tuple[str, str, str]:
    if record.client.kind != "group":
        return record.client.host, "", record.client.client_id
    if not isinstance(member, dict):
        return "", "", ""
    host, consumer_id, client_id = (member.get(name) for name in ("host", "consumer_id", "client_id"))
    return str(host or ""), str(consumer_id or ""), str(client_id or "")


def _topic_lag(record: HealthRecord) -> tuple[Sample, ...]:
    sums: dict[str, float] = {}
    for row in record.rows("lag") if record.client.kind == "group" else ():
        records = amount(row.get("records"))
        if records is not None:
            sums[row["topic"]] = sums.get(row["topic"], 0) + records
    return tuple([((topic,), records) for topic, records in sums.items()])


def _client(name: str, text: str, source: Source, *extra: str, counter: bool = False) -> Family:
    return Family(f"kafka_client_{name}", text, "client", extra, source, "counter" if counter else "gauge")


def _group(name: str, text: str, source: Source, *extra: str) -> Family:
    always = source.needs == "group"
    return Family(f"kafka_consumergroup_group_{name}", text, "group", extra, source, always=always)


#: Everything that is served of clients and groups, in the order of the page.
FAMILIES: tuple[Family, ...] = (
    _client(
        "up",
        "1 while the client reports, 0 once it has gone; absent where nobody knows, as nothing arrives at all.",
        Source("", lambda r: _one(None if r.stale else int(not r.departed))),
    ),
    _client(
        "last_seen_timestamp_seconds",
        "When the client was last heard of.",
        Source("", lambda r: _one(r.seen_ms / 1000)),
    ),
    _client(
        "info",
        "What the client is: its library, version and kind.",
        Source("", lambda r: (((r.client.library or "", r.client.version or "", r.client.kind or ""), 1),)),
        "library",
        "version",
        "kind",
    ),
    _client(
        "failure_mode",
        "1 for the status that the client has in a failure mode; absent where that is ok.",
        Source("", lambda r: tuple([((v.mode, v.status), 1) for v in r.verdicts if v.status != "ok"])),
        "mode",
        "status",
    ),
    _client(
        "failure_mode_since_timestamp_seconds",
        "When the suspected or confirmed failure began.",
        Source("", _since),
        "mode",
    ),
    _client(
        "clock_skew_seconds",
        "How much the client's clock is ahead (behind: negative); absent up to a minute.",
        Source("clock", lambda r: _one(r.value("clock", "skew_seconds"))),
    ),
    _client(
        "producer_buffer_used_ratio",
        "Used share of the producer's buffer, 0 to 1.",
        _indicator("buffer_used_ratio", "last"),
    ),
    _client("producer_buffer_total_bytes", "Size of the producer's buffer.", _indicator("buffer", "total_bytes")),
    _client(
        "producer_buffer_available_bytes",
        "Free part of the producer's buffer.",
        _indicator("buffer", "available_bytes"),
    ),
    _client(
        "producer_waiting_threads",
        "Threads that are blocked in send() for want of buffer.",
        _indicator("buffer", "waiting_threads"),
    ),
    _client(
        "producer_buffer_exhausted_records_total",
        "Records that were dropped for want of buffer (reliable since client 2.6).",
        _indicator("buffer", "exhausted_records_total"),
        counter=True,
    ),
    _client(
        "producer_buffer_seconds_to_full",
        "Seconds until the buffer is full at its present slope; absent while it does not fill.",
        _indicator("buffer", "seconds_to_full"),
    ),
    _client(
        "producer_callback_seconds",
        "Time that a callback takes, measured by the client or derived from its I/O thread.",
        _stats("callback_seconds", "avg", "max", "p99"),
        "stat",
    ),
    _client(
        "producer_io_thread_busy_ratio",
        "Share of time that the I/O thread spends outside its selector, 0 to 1.",
        _indicator("io_thread_busy_ratio"),
    ),
    _client(
        "producer_queue_time_seconds",
        "Time that batches wait in the buffer before they are sent.",
        _stats("queue_time_seconds", "avg", "max"),
        "stat",
    ),
    _client(
        "producer_request_latency_seconds",
        "Time from a request to its response.",
        _stats("request_latency_seconds", "avg", "max"),
        "stat",
    ),
    _client(
        "producer_slowest_broker_latency_seconds",
        "Average time from a request to its response, of the broker that answers the producer slowest.",
        Source("slowest_broker", _slowest_broker),
        "broker",
    ),
    _client("producer_record_send_rate", "Records per second that the producer sends.", _indicator("record_send_rate")),
    _client(
        "producer_record_error_rate",
        "Records per second that the producer gave up; absent while there are none.",
        _some("record_error_rate"),
    ),
    _client(
        "producer_record_retry_rate",
        "Records per second that the producer sent again; absent while there are none.",
        _some("record_retry_rate"),
    ),
    _client("producer_batch_size_bytes", "Average size of the batches sent.", _indicator("batch_size_bytes")),
    _client(
        "producer_compression_ratio",
        "Size of the batches sent as a share of what they hold, 1 without compression.",
        _indicator("compression_ratio"),
    ),
    _client("connections", "Connections to brokers that are open.", _indicator("connections")),
    _client(
        "failed_authentication_rate",
        "Attempts per second that brokers refused, as they did not accept who the client is; absent while there are "
        "none.",
        _some("failed_authentication_rate"),
    ),
    _client(
        "throttle_seconds",
        "Average time for which brokers hold answers back, as the client exceeds its quota; absent while it does not.",
        _some("throttle_seconds"),
    ),
    _client(
        "consumer_queue_used_ratio",
        "Used share of the queue between the client and one topic, 0 to 1.",
        Source("queues", _queues),
        "topic",
    ),
    _client(
        "consumer_last_poll_age_seconds",
        "Time since the consumer last called poll().",
        _indicator("last_poll_age_seconds"),
    ),
    _client(
        "consumer_poll_idle_ratio",
        "Share of time that the consumer waits in poll(); near 0 its handler is the bottleneck.",
        _indicator("poll_idle_ratio"),
    ),
    _client(
        "consumer_records_consumed_rate",
        "Records per second that the consumer gets.",
        _indicator("records_consumed_rate"),
    ),
    _client(
        "consumer_rebalance_rate",
        "Rebalances per second that the consumer took part in; absent while there are none.",
        _some("rebalance_rate"),
    ),
    _client(
        "consumer_rebalance_seconds", "Time that the longest rebalance of late took.", _indicator("rebalance_seconds")
    ),
    _client(
        "consumer_commit_latency_seconds",
        "Time that commits of offsets take.",
        _stats("commit_latency_seconds", "avg", "max"),
        "stat",
    ),
    _group("lag", "Records between the committed offset and the end of the partition.", _lag("records"), *_MEMBER),
    _group("lag_seconds", "Age of the oldest record that is not committed.", _lag("seconds"), *_MEMBER),
    _group("offset", "Committed offset.", _lag("committed_offset"), *_MEMBER),
    _group("max_lag", "Largest lag of the group's partitions, in records.", _indicator("group", "max_lag")),
    _group(
        "max_lag_seconds",
        "Largest lag of the group's partitions, in seconds.",
        _indicator("group", "max_lag_seconds"),
    ),
    _group("sum_lag", "Lag of all the group's partitions, in records.", _indicator("group", "sum_lag")),
    _group("topic_sum_lag", "Lag of the group on one topic, in records.", Source("lag", _topic_lag), "topic"),
    _group(
        "status",
        "1 for the state that the worst of the group's partitions is in; absent for the others.",
        Source("group", lambda r: (((word,), 1),) if (word := r.text("group", "status")) in STATE_ORDER else ()),
        "status",
    ),
    Family(
        "kafka_partition_latest_offset",
        "Offset that the next record of the partition will have.",
        "partition",
        ("topic", "partition"),
        _lag("end_offset", of_member=False),
    ),
    Family(
        "kafka_partition_earliest_offset",
        "Offset of the oldest record that the partition still holds.",
        "partition",
        ("topic", "partition"),
        _lag("start_offset", of_member=False),
    ),
)


def _service(name: str, text: str, *extra: str) -> Family:
    return Family(f"kafka_client_service_{name}", text, "service", extra)


_BY_NAME = {family.name: family for family in FAMILIES}
SERVICE_CLIENTS = _service(
    "clients",
    "Clients of the service by what is known of them: ok, partial (nothing found, but not every failure mode could be "
    "judged), suspected, confirmed, unknown (none could), or gone.",
    "status",
)
SERVICE_FAILURES = _service(
    "failure_mode_clients",
    "Clients of the service by their status in each failure mode, those that have gone among them.",
    "mode",
    "status",
)
SERVICE_SENT = _service(
    "producer_record_send_rate", "Records per second that the service's producers send, as far as they are known to."
)
OWNER_INFO = Family(
    "kafka_client_owner_info",
    "Who owns the service, 1; absent where nobody does ([owners] files).",
    "service",
    OWNER_LABELS,
)
GROUP_OWNER_INFO = Family(
    "kafka_consumergroup_owner_info",
    "Who owns the consumer group, 1: as [owners] names it, else who owns the service of a member that reports.",
    "partition",
    ("group", *OWNER_LABELS),
)
SLO_TARGET = _service(
    "slo_target_ratio", "Share of healthy client-minutes that the service should reach, where its owner has set one."
)
#: Of a service the worst of its clients: family of the service → that of the client, and its extra labels.
SERVICE_WORST: Mapping[Family, tuple[Family, tuple[str, ...] | None]] = {
    _service(f"{name.removeprefix('kafka_client_')}_max", f"Of the service's clients the largest: {what}."): (
        _BY_NAME[name],
        extra,
    )
    for name, what, extra in (
        ("kafka_client_producer_buffer_used_ratio", "used share of a buffer", None),
        ("kafka_client_producer_callback_seconds", "average time of a callback", ("avg",)),
        ("kafka_client_producer_io_thread_busy_ratio", "share of time of an I/O thread outside its selector", None),
        ("kafka_client_consumer_queue_used_ratio", "used share of a topic's queue", None),
        ("kafka_client_consumer_last_poll_age_seconds", "time since a consumer called poll()", None),
    )
}
SERVICE_VERSIONS = _service(
    "version_clients",
    "Clients of the service by what they run and what is known of them; of a service with many versions the rarest are "
    "one, version other.",
    "kind",
    "library",
    "version",
    "status",
)
#: What is served of services: sums over their clients, which no cap and no profile leaves out.
SERVICE_FAMILIES = (
    SERVICE_CLIENTS,
    SERVICE_FAILURES,
    SERVICE_VERSIONS,
    *SERVICE_WORST,
    SERVICE_SENT,
    OWNER_INFO,
    SLO_TARGET,
    GROUP_OWNER_INFO,
)

#: The metric that every client and group has: who is left out altogether is counted as a series of it.
EVERYBODY = FAMILIES[0].name
SERIES_DROPPED = Family(
    "kafka_client_health_series_dropped_total",
    "Series left out of scrapes because their metric has more than the cap allows.",
    "exporter",
    ("metric",),
    kind="counter",
)
EXPORTER_UP = Family(
    "kafka_client_health_exporter_up",
    "1 while the exporter has read all of its topic and can reach Kafka.",
    "exporter",
    (),
)
NEWEST_RECORD = Family(
    "kafka_client_health_exporter_newest_record_timestamp_seconds",
    "Time that the newest record of clients, and that of consumer groups, speaks of; when it stands still, the monitor "
    "is blind or they are silent.",
    "exporter",
    ("of",),
)
DECODE_ERRORS = Family(
    "kafka_client_health_exporter_decode_errors_total",
    "Records of the topic that could not be read.",
    "exporter",
    (),
    kind="counter",
)
OWNERS_READ = Family(
    "kafka_client_health_exporter_owners_read",
    "1 while the files of [owners] are as the exporter has read them, 0 while what they say now cannot be read; absent "
    "without such files.",
    "exporter",
    (),
)
#: What is served of the exporter itself.
EXPORTER_FAMILIES = (SERIES_DROPPED, EXPORTER_UP, NEWEST_RECORD, DECODE_ERRORS, OWNERS_READ)
ALL_FAMILIES = (*FAMILIES, *SERVICE_FAMILIES, *EXPORTER_FAMILIES)
