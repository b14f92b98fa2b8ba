"""All settings, frozen and typed. The package `configuration` reads the values of the settings.

`settings.toml` beside this file has the default, the reason and the bounds of each setting.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from clienthealth.model.errors import SettingsError
from clienthealth.model.tables import table
from clienthealth.settings.fields import DEFAULT, Section, Stated

_FILE = "settings.toml"
STATED = {
    name: Section(f"settings/{_FILE}: {name}", rows) for name, rows in table(Path(__file__).with_name(_FILE)).items()
}


class KafkaSettings(Stated, of=STATED["kafka"]):
    bootstrap_servers: str = DEFAULT
    options: dict[str, str] = DEFAULT


class TopicSettings(Stated, of=STATED["topics"]):
    metrics: tuple[str, ...] = DEFAULT
    logs: tuple[str, ...] = DEFAULT
    health: str = DEFAULT
    rejects: str = DEFAULT
    max_message_bytes: int = DEFAULT
    services: tuple[str, ...] = DEFAULT

    def contradictions(self) -> Iterator[str]:
        """Yield an error for each contradiction, for example an output topic that is also an input topic."""
        if self.health == self.rejects or {self.health, self.rejects} & {*self.metrics, *self.logs}:
            yield "the topics health and rejects must differ from each other and from the input topics"
        for topic in sorted({rule.partition("=")[0] for rule in self.services} - {*self.metrics, *self.logs}):
            yield f"services: topic '{topic}' is listed neither in metrics nor in logs"


class MonitorSettings(Stated, of=STATED["monitor"]):
    cluster: str = DEFAULT
    checkpoint: str = DEFAULT
    history: str = DEFAULT
    window_seconds: int = DEFAULT
    slide_seconds: int = DEFAULT
    watermark_seconds: int = DEFAULT
    trigger_seconds: int = DEFAULT
    publish_seconds: int = DEFAULT
    quality_seconds: int = DEFAULT
    start_seconds_back: int = DEFAULT
    max_offsets_per_trigger: int = DEFAULT
    shuffle_partitions: int = DEFAULT
    buckets: int = DEFAULT
    future_seconds: int = DEFAULT
    max_record_bytes: int = DEFAULT
    heap_mb: int = DEFAULT
    class_archive: bool = DEFAULT
    max_clients: int = DEFAULT
    max_clients_per_service: int = DEFAULT
    max_new_clients: int = DEFAULT
    max_events_per_process: int = DEFAULT
    max_events: int = DEFAULT
    max_readings_per_second: int = DEFAULT
    metrics_host: str = DEFAULT
    metrics_port: int = DEFAULT


class SparkSettings(Stated, of=STATED["spark"]):
    options: dict[str, str] = DEFAULT


class AbsenceSettings(Stated, of=STATED["absence"]):
    min_gap_seconds: int = DEFAULT
    watermark_seconds: int = DEFAULT
    shown_seconds: int = DEFAULT


class LagSettings(Stated, of=STATED["lag"]):
    window_seconds: int = DEFAULT
    slide_seconds: int = DEFAULT
    min_commits: int = DEFAULT
    stop_min_seconds: int = DEFAULT
    stop_gaps: float = DEFAULT
    dead_band_per_second: float = DEFAULT
    max_extrapolation_seconds: int = DEFAULT
    allowed_lag: dict[str, int] = DEFAULT


class IdentitySettings(Stated, of=STATED["identity"]):
    otlp_client_id: tuple[str, ...] = DEFAULT
    otlp_service: tuple[str, ...] = DEFAULT
    otlp_instance: tuple[str, ...] = DEFAULT
    otlp_host: tuple[str, ...] = DEFAULT
    push_service: tuple[str, ...] = DEFAULT
    push_services: tuple[str, ...] = DEFAULT
    push_hosts: tuple[str, ...] = DEFAULT


class RegistrySettings(Stated, of=STATED["registry"]):
    """A schema registry, which has the schemas that are needed to decode records in Avro or protobuf."""

    url: str = DEFAULT
    user: str = DEFAULT
    password_file: str = DEFAULT
    ca_file: str = DEFAULT
    cert_file: str = DEFAULT
    key_file: str = DEFAULT
    timeout_seconds: float = DEFAULT
    patience_seconds: float = DEFAULT


class PrometheusSettings(Stated, of=STATED["prometheus"]):
    host: str = DEFAULT
    port: int = DEFAULT
    ttl_seconds: int = DEFAULT
    max_series_per_metric: int = DEFAULT
    max_clients: int = DEFAULT
    client_series: str = DEFAULT
    named_clients: tuple[str, ...] = DEFAULT
    shard: str = DEFAULT
    labels: dict[str, str] = DEFAULT
    keep_labels: tuple[str, ...] = DEFAULT
    ticket_only: dict[str, str] = DEFAULT
    expect_clusters: tuple[str, ...] = DEFAULT
    expect_shards: int = DEFAULT
    web_config_file: str = DEFAULT
    cluster_name: str = DEFAULT
    incident_webhook: str = DEFAULT
    incident_webhook_secret_file: str = DEFAULT


class JvmSettings(Stated, of=STATED["jvm"]):
    targets: tuple[str, ...] = DEFAULT
    interval_seconds: float = DEFAULT
    timeout_seconds: float = DEFAULT
    thread_dumps: bool = DEFAULT
    dump_min_seconds: float = DEFAULT
    dumps_per_minute: float = DEFAULT
    user: str = DEFAULT
    password_file: str = DEFAULT


class GroupSettings(Stated, of=STATED["groups"]):
    include: str = DEFAULT
    exclude: str = DEFAULT
    interval_seconds: float = DEFAULT
    groups_per_request: int = DEFAULT
    concurrency: int = DEFAULT
    timeout_seconds: float = DEFAULT
    idle_interval_seconds: float = DEFAULT
    members_interval_seconds: float = DEFAULT
    clusters: dict[str, str] = DEFAULT
    service: str = DEFAULT


class LinkSettings(Stated, of=STATED["links"]):
    runbooks: str = DEFAULT
    dashboards: str = DEFAULT
    status_page: str = DEFAULT


class OwnerSettings(Stated, of=STATED["owners"]):
    files: tuple[str, ...] = DEFAULT


class ReviewSettings(Stated, of=STATED["review"]):
    out: str = DEFAULT
    histories: dict[str, str] = DEFAULT
    slo_target: float = DEFAULT
    lost_records_target: int = DEFAULT
    needless_pages_target: int = DEFAULT
    environments: dict[str, str] = DEFAULT
    night_from_hour: int = DEFAULT
    night_to_hour: int = DEFAULT
    retention_days: int = DEFAULT
    prometheus_url: str = DEFAULT
    smtp_host: str = DEFAULT
    smtp_port: int = DEFAULT
    smtp_user: str = DEFAULT
    smtp_password_file: str = DEFAULT
    smtp_tls: str = DEFAULT
    mail_from: str = DEFAULT
    mail_to: tuple[str, ...] = DEFAULT

    def contradictions(self) -> Iterator[str]:
        """Yield an error for each contradiction, for example a password that would be sent without TLS."""
        for cluster in self.histories:
            if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", cluster):
                yield f"histories: '{cluster}' is not a valid folder name: use letters, digits, '_', '.' and '-'"
        for cluster in self.environments.keys() - self.histories.keys():
            yield f"environments: cluster '{cluster}' is not listed in histories"
        if self.smtp_user and self.smtp_tls == "none":
            yield "smtp_tls must not be none if smtp_user is set, because the password would be sent without TLS"


@dataclass(frozen=True)
class Settings:
    """All settings, with one attribute per section of the settings file.

    Raises SettingsError if values of different sections contradict each other.
    """

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
    #: modes: values of changed thresholds, by failure mode and by name of the threshold.
    modes: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for section, interval in (("jvm", self.jvm.interval_seconds), ("groups", self.groups.interval_seconds)):
            if self.prometheus.ttl_seconds <= interval + self.monitor.publish_seconds:
                raise SettingsError(
                    f"[prometheus] ttl_seconds ({self.prometheus.ttl_seconds}) must be longer than the sum of "
                    f"[{section}] interval_seconds ({interval:g}) and [monitor] publish_seconds "
                    f"({self.monitor.publish_seconds}): otherwise series would vanish between two records"
                )
        if self.lag.window_seconds < self.lag.min_commits * self.groups.interval_seconds:
            raise SettingsError(
                f"[lag] window_seconds ({self.lag.window_seconds}) must be at least min_commits "
                f"({self.lag.min_commits}) times [groups] interval_seconds ({self.groups.interval_seconds:g}): "
                "otherwise no group could be judged"
            )
