"""All settings: frozen and typed. Each has a default, a reason and bounds. The package `configuration` reads them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from clienthealth.model.errors import SettingsError
from clienthealth.settings.fields import (
    ALIAS,
    EXPRESSION,
    FILE,
    HOST,
    MAIL,
    OF_TOPIC,
    PAGE,
    PLACE,
    SERVERS,
    SHARD,
    TARGET,
    TOPIC,
    URL,
    Checked,
    setting,
)

DAY, YEAR = 86_400, 31_536_000
#: Kinds of settings: a time in seconds, up to a day or a year; a count, at least 1; a port, 0 for none or any.
seconds = partial(setting, at_least=0, at_most=DAY)
long_seconds = partial(setting, at_least=0, at_most=YEAR)
count = partial(setting, at_least=1)
port_number = partial(setting, at_least=0, at_most=65_535)


@dataclass(frozen=True)
class KafkaSettings(Checked):
    bootstrap_servers: str = setting("127.0.0.1:9092", "brokers, host:port, comma separated", form=SERVERS)
    options: dict[str, str] = setting({}, "security options as Kafka's Java clients name them (security.protocol, …)")


@dataclass(frozen=True)
class TopicSettings(Checked):
    metrics: tuple[str, ...] = setting(
        ("client-metrics",), "topics with client metrics in any known format", form=TOPIC
    )
    logs: tuple[str, ...] = setting(
        ("client-logs",), "topics with client logs and thread dumps in any known format", form=TOPIC
    )
    health: str = setting("client-health", "output: the newest state of every client (compacted)", form=TOPIC)
    rejects: str = setting("client-rejects", "output: records that could not be read, with the reason", form=TOPIC)
    max_message_bytes: int = setting(
        1_048_588,
        "max.message.bytes of these two topics in Kafka; larger records, compressed, are left out",
        at_least=10_000,
    )

    services: tuple[str, ...] = setting(
        (),
        "services that a topic may report clients of, as TOPIC=GLOB; a topic without an entry may report all",
        form=OF_TOPIC,
    )

    def contradictions(self) -> Iterator[str]:
        """Yield an error if the monitor would read topics that it writes, or if `services` names an unknown topic."""
        if self.health == self.rejects or {self.health, self.rejects} & {*self.metrics, *self.logs}:
            yield "health and rejects must be topics of their own"
        for topic in sorted({rule.partition("=")[0] for rule in self.services} - {*self.metrics, *self.logs}):
            yield f"services names {topic}, which is neither among metrics nor logs"


@dataclass(frozen=True)
class MonitorSettings(Checked):
    cluster: str = setting("", "name of the Kafka cluster that is watched: label cluster of every series; empty: none")
    checkpoint: str = setting(
        "state/checkpoints", "folder or URL of the checkpoints; keep it over restarts", form=PLACE
    )
    history: str = setting("state/history", "folder or URL of the Delta tables of the history", form=PLACE)
    window_seconds: int = setting(
        60, "length of a window: six samples at the usual interval of 10 s", at_least="slide_seconds", at_most=DAY
    )
    slide_seconds: int = seconds(
        30,
        "interval between the starts of two windows; a fault shows in the first window that starts after the fault",
        at_least=1,
    )
    watermark_seconds: int = seconds(120, "how late a record may arrive and still count")
    trigger_seconds: int = seconds(10, "interval between batches: a batch costs half a second of CPU, however small")
    publish_seconds: int = setting(
        0,
        "how often measurements of a client are published, 0: with each sample; a changed verdict is published at once",
        at_least=0,
        at_most=300,
    )
    quality_seconds: int = seconds(
        60, "how often counts of input records go to the history: a commit of a table costs more than a small batch"
    )
    start_seconds_back: int = long_seconds(900, "how far back a new checkpoint starts reading")
    max_offsets_per_trigger: int = count(400_000, "most records in a batch, so that a backlog is worked off in steps")
    shuffle_partitions: int = setting(
        2, "state partitions; about the number of cores; fixed with the checkpoint", at_least=1, at_most=10_000
    )
    buckets: int = setting(
        32,
        "number of states, of a few megabytes each, that share the processes; fixed with the checkpoint",
        at_least=1,
        at_most=100_000,
    )
    future_seconds: int = setting(
        300, "how far ahead of the clock a record's time may be; others are rejects", at_least=0
    )
    max_record_bytes: int = count(4_194_304, "largest record that is read; larger ones are rejects")
    #: Spark refuses to start with a heap smaller than 471 MB.
    heap_mb: int = setting(1024, "heap of Spark's JVM; Python workers need 100 to 300 MB each beside it", at_least=512)
    max_clients: int = count(200_000, "most clients that are judged; known clients stay, new ones are left out")
    max_clients_per_service: int = count(50_000, "most clients of one service that are judged")
    max_new_clients: int = count(
        10_000,
        "new clients that a batch admits at their first sample; the rest follow with their second, so that a flood of "
        "ids delays no client",
    )
    max_events_per_process: int = count(
        20_000, "most log events kept of a process; of the most frequent kind only the newest are kept"
    )
    max_events: int = count(1_000_000, "most log events kept of all processes together")
    max_readings_per_second: int = count(2, "most samples of a client within a second; only the newest are kept")
    metrics_host: str = setting("127.0.0.1", "address of the monitor's own metrics", form=HOST)
    metrics_port: int = port_number(9308, "port of the monitor's own metrics; 0 switches them off")


@dataclass(frozen=True)
class SparkSettings(Checked):
    options: dict[str, str] = setting(
        {},
        "options of Spark and Hadoop (spark.hadoop.fs.s3a.endpoint, …); options that the state needs stay fixed",
    )


@dataclass(frozen=True)
class AbsenceSettings(Checked):
    min_gap_seconds: int = seconds(
        45,
        "a client counts as gone after this time without data, or after 3 of its intervals if they are longer",
        at_least=1,
    )
    watermark_seconds: int = seconds(20, "how late a record may be before its client counts as gone")
    shown_seconds: int = long_seconds(
        3600,
        "how long a failure of a client without data is shown, unless the client returns or data proves its end",
    )


@dataclass(frozen=True)
class LagSettings(Checked):
    window_seconds: int = long_seconds(900, "how far back commits count", at_least="slide_seconds")
    slide_seconds: int = long_seconds(
        300, "interval between the starts of two lag windows; the oldest open window is judged", at_least=1
    )
    min_commits: int = count(3, "least number of commits in the window; with fewer the state is UNKNOWN")
    stop_min_seconds: int = long_seconds(
        60, "a group counts as stopped after this time without a commit, or after stop_gaps if that is longer"
    )
    stop_gaps: float = setting(3.0, "the same in multiples of the group's usual time between two commits", at_least=0)
    dead_band_per_second: float = setting(
        1.0, "least rise of the lag, in records per second, that counts as a rise", at_least=0
    )
    max_extrapolation_seconds: int = long_seconds(600, "longest extrapolation of a lag in seconds")
    allowed_lag: dict[str, int] = setting(
        {},
        "acceptable lag in records, by glob on 'group' or 'group/topic'; the first match counts",
        at_least=0,
    )


@dataclass(frozen=True)
class IdentitySettings(Checked):
    otlp_client_id: tuple[str, ...] = setting(
        ("client_id", "client.id", "client-id", "kafka_client_id", "kafka.client.id", "messaging.client.id"),
        "OTLP attributes that name the client; the first present one counts",
    )
    otlp_service: tuple[str, ...] = setting(("service.name", "service_name"), "OTLP attributes that name the service")
    otlp_instance: tuple[str, ...] = setting(
        ("service.instance.id", "client_instance_id", "k8s.pod.uid", "container.id"),
        "OTLP attributes that name the process",
    )
    otlp_host: tuple[str, ...] = setting(
        ("host.name", "k8s.pod.name", "client_source_address"), "OTLP attributes that name the host"
    )
    push_service: tuple[str, ...] = setting(
        ("table", "principal", "client_id"),
        "sources for the service of a client that pushes through our broker plugin; the first that names one counts",
        one_of=("table", "principal", "client_id"),
    )
    push_services: tuple[str, ...] = setting(
        (),
        "the table of push_service, as GLOB=SERVICE; the first glob that matches principal, id or address counts",
        form=ALIAS,
    )
    push_hosts: tuple[str, ...] = setting(
        (),
        "host of a pushing client, as GLOB=HOST on its address, else the address; its logs must name the same host",
        form=ALIAS,
    )


@dataclass(frozen=True)
class RegistrySettings(Checked):
    """A schema registry, where topics are written by its serializers (Avro, protobuf)."""

    url: str = setting("", "address of the schema registry; empty: frames of Avro and protobuf are rejects", form=URL)
    user: str = setting("", "user on the registry (for Confluent Cloud the API key)")
    password_file: str = setting("", "file that holds that user's password (the API secret)")
    ca_file: str = setting("", "CA certificates for the registry; empty: those of the machine")
    cert_file: str = setting("", "client certificate, if the registry requires one")
    key_file: str = setting("", "key of the client certificate, unless it is in the same file", needs="cert_file")
    timeout_seconds: float = seconds(5.0, "longest time for one request", at_least=0.1)
    patience_seconds: float = seconds(60.0, "how long requests are repeated before the batch fails and is read again")


@dataclass(frozen=True)
class PrometheusSettings(Checked):
    host: str = setting("127.0.0.1", "address to listen on; 0.0.0.0 for all", form=HOST)
    port: int = port_number(9309, "port of /metrics, /healthz and the status page")
    ttl_seconds: int = long_seconds(900, "a client loses its series after this time without data", at_least=1)
    max_series_per_metric: int = count(50_000, "most series of one metric; the others are only counted")
    max_clients: int = count(
        200_000,
        "most clients and groups kept: gone ones make room first, then healthy ones for failing ones; the rest is "
        "counted",
    )
    client_series: str = setting(
        "all",
        "clients with series of their own: all, or (large fleets) the unhealthy; the others are counted per service",
        one_of=("all", "unhealthy"),
    )
    named_clients: tuple[str, ...] = setting(
        (), "clients and groups that always have series: globs on service/client_id"
    )
    shard: str = setting(
        "", "part of the clients that this exporter serves, as 2/4: the second of four; empty: all", form=SHARD
    )
    labels: dict[str, str] = setting({}, "further fixed labels of every series, as env = 'prod'")
    keep_labels: tuple[str, ...] = setting(
        ("cluster", "env"), "labels that distinguish installations in rules and dashboards; the labels above are added"
    )
    ticket_only: dict[str, str] = setting(
        {"env": "dev.*|test.*|stag.*|qa|uat|int|sandbox|(non|pre)-?prod.*"},
        "label = regular expression: if a label of the installation or of an owner (team, tier, pager) matches as a "
        "whole, alerts open tickets in place of pages",
        form=EXPRESSION,
    )
    expect_clusters: tuple[str, ...] = setting(
        (), "values of label cluster that must report: an alert pages while one is missing; empty: those seen before"
    )
    expect_shards: int = setting(
        0, "number of exporter shards of each cluster; 0: as many as were seen", at_least=0, at_most=10_000
    )
    web_config_file: str = setting(
        "",
        "file with TLS and passwords in the form of Prometheus's web.config.file; empty: no TLS, no passwords",
        form=FILE,
    )
    cluster_name: str = setting("default", "label cluster_name of the consumer group metrics")
    incident_webhook: str = setting(
        "", "address that gets each change of an incident as a CloudEvent, for automation; empty: none", form=URL
    )
    incident_webhook_secret_file: str = setting("", "file that holds the secret by which these events are signed")


@dataclass(frozen=True)
class JvmSettings(Checked):
    targets: tuple[str, ...] = setting((), "Jolokia agents: URLs, or service=URL", form=TARGET)
    interval_seconds: float = seconds(10.0, "time between two readings of a JVM", at_least=0.01)
    timeout_seconds: float = seconds(
        5.0, "time limit of a reading; a JVM that exceeds it is reported as not answering", at_least=0.1
    )
    thread_dumps: bool = setting(True, "take a thread dump when a client looks suspicious")
    dump_min_seconds: float = seconds(30.0, "least time between two dumps of one JVM")
    dumps_per_minute: float = setting(
        60.0, "most dumps a minute of all JVMs together; a dump is a record of up to 900 kB", at_least=0.1
    )
    user: str = setting("", "user for Jolokia agents with authentication")
    password_file: str = setting("", "file that holds that user's password")


@dataclass(frozen=True)
class GroupSettings(Checked):
    include: str = setting(".*", "groups to read: a regular expression on the whole name", form=EXPRESSION)
    exclude: str = setting("", "groups to leave out: a regular expression on the whole name", form=EXPRESSION)
    interval_seconds: float = seconds(10.0, "time between two readings", at_least=0.01)
    groups_per_request: int = count(200, "number of groups in one request for committed offsets")
    concurrency: int = setting(4, "requests at the same time", at_least=1, at_most=1000)
    timeout_seconds: float = seconds(10.0, "time limit of a request; the other requests continue", at_least=0.1)
    idle_interval_seconds: float = seconds(
        60.0, "longest time between two readings of a group that is empty and unchanged, or cannot be read"
    )
    members_interval_seconds: float = seconds(
        30.0, "interval at which a group's members are read; also when its state changes"
    )
    clusters: dict[str, str] = setting(
        {}, "further clusters: name = settings file; its [kafka] and [groups] apply, and the topics of this file"
    )
    service: str = setting("consumer-groups", "the service under which groups without a known service appear")


@dataclass(frozen=True)
class LinkSettings(Checked):
    runbooks: str = setting("", "base URL of the runbooks; empty: /runbooks of the status page", form=URL)
    dashboards: str = setting("", "URL of Grafana; empty: no links to dashboards", form=URL)
    status_page: str = setting(
        "http://127.0.0.1:9309",
        "URL of the status page; with several, labels in braces select one: {cluster}, {env}, {shard}",
        form=PAGE,
    )


@dataclass(frozen=True)
class OwnerSettings(Checked):
    files: tuple[str, ...] = setting(
        (),
        "owners of services, groups and objectives: *.toml ([[owner]]), Backstage's *.yaml, CODEOWNERS; read again "
        "when they change",
        form=FILE,
    )


@dataclass(frozen=True)
class ReviewSettings(Checked):
    out: str = setting("reports", "folder or URL of the weekly reviews, with actions.toml beside them", form=PLACE)
    histories: dict[str, str] = setting(
        {},
        "histories of several monitors that one review compares: cluster = folder or URL; empty: [monitor] history",
        form=PLACE,
    )
    slo_target: float = setting(
        0.995, "share of healthy client-minutes that each service should reach", at_least=0, at_most=0.999_999
    )
    lost_records_target: int = setting(
        0,
        "records that each service may lose in a review's period; 0, because callers believe them delivered",
        at_least=0,
    )
    needless_pages_target: int = setting(
        2,
        "pages a week that may have needed no action (the noise budget); more wear out the people on call",
        at_least=0,
    )
    environments: dict[str, str] = setting(
        {},
        "label env of the clusters in histories: each has its own sum; an environment with tickets only has no pages",
    )
    night_from_hour: int = setting(22, "hour (UTC) at which a night begins, for pages at night", at_least=0, at_most=23)
    night_to_hour: int = setting(7, "hour (UTC) at which the night ends", at_least=0, at_most=23)
    retention_days: int = setting(400, "age in days at which maintenance deletes history", at_least=1, at_most=36_500)
    prometheus_url: str = setting("", "Prometheus that 'doctor' checks; empty: it checks none", form=URL)
    smtp_host: str = setting("", "mail server; empty: no mail", form=HOST)
    smtp_port: int = port_number(587, "port of the mail server", at_least=1)
    smtp_user: str = setting("", "user on the mail server", needs="smtp_password_file")
    smtp_password_file: str = setting("", "file that holds that user's password")
    smtp_tls: str = setting("starttls", "starttls, tls or none", one_of=("starttls", "tls", "none"))
    mail_from: str = setting("", "sender of the review", form=MAIL)
    mail_to: tuple[str, ...] = setting((), "recipients of the review", form=MAIL)

    def contradictions(self) -> Iterator[str]:
        """Yield an error if a password would be sent without TLS, or if a cluster's name cannot be a folder's name."""
        for cluster in self.histories:
            if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", cluster):
                yield f"histories: '{cluster}' can be no name of a folder"
        for cluster in self.environments.keys() - self.histories.keys():
            yield f"environments: '{cluster}' is no cluster of histories"
        if self.smtp_user and self.smtp_tls == "none":
            yield "smtp_tls must not be none where smtp_user is set: its password would be sent without TLS"


@dataclass(frozen=True)
class Settings:
    """Everything that can be set; one attribute per section of the file."""

    kafka: KafkaSettings = field(default_factory=KafkaSettings)
    topics: TopicSettings = field(default_factory=TopicSettings)
    monitor: MonitorSettings = field(default_factory=MonitorSettings)
    spark: SparkSettings = field(default_factory=SparkSettings)
    absence: AbsenceSettings = field(default_factory=AbsenceSettings)
    lag: LagSettings = field(default_factory=LagSettings)
    identity: IdentitySettings = field(default_factory=IdentitySettings)
    registry: RegistrySettings = field(default_factory=RegistrySettings)
    prometheus: PrometheusSettings = field(default_factory=PrometheusSettings)
    jvm: JvmSettings = field(default_factory=JvmSettings)
    groups: GroupSettings = field(default_factory=GroupSettings)
    links: LinkSettings = field(default_factory=LinkSettings)
    owners: OwnerSettings = field(default_factory=OwnerSettings)
    review: ReviewSettings = field(default_factory=ReviewSettings)
    modes: Mapping[str, Mapping[str, float]] = field(
        default_factory=dict, metadata={"reason": "thresholds of failure modes that differ from the defaults"}
    )

    def __post_init__(self) -> None:
        # Each section is valid by itself; these checks compare values of different sections.
        for section, interval in (("jvm", self.jvm.interval_seconds), ("groups", self.groups.interval_seconds)):
            if self.prometheus.ttl_seconds <= interval + self.monitor.publish_seconds:
                raise SettingsError(
                    f"[prometheus] ttl_seconds ({self.prometheus.ttl_seconds}) must be longer than [{section}] "
                    f"interval_seconds ({interval:g}) and [monitor] publish_seconds ({self.monitor.publish_seconds}): "
                    "series would end between two records"
                )
        if self.lag.window_seconds < self.lag.min_commits * self.groups.interval_seconds:
            raise SettingsError(
                f"[lag] window_seconds ({self.lag.window_seconds}) must hold min_commits ({self.lag.min_commits}) "
                f"readings, one each [groups] interval_seconds ({self.groups.interval_seconds:g}): "
                "no group could be judged"
            )
