"""Checks of Kafka: reachable, authorised for topics and groups, topics as they should be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import (
    AuthorizationError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    GroupAuthorizationFailedError,
    KafkaError,
)

from clienthealth.model.errors import HealthError
from clienthealth.model.telemetry import Stream
from clienthealth.ops.doctor import Finding, clocks, codecs, pushes
from clienthealth.ops.doctor.newest import TIMEOUT_MS, newest
from clienthealth.ops.doctor.readable import records_readable
from clienthealth.platform import topics as declared
from clienthealth.platform.kafka import OFFSETS_TOPIC, admin, extents
from clienthealth.settings import Settings

#: The newest records of a topic that are looked at, enough for many clients.
NEWEST = 500
#: What Spark names the consumer groups of its readers after.
READERS = "spark-kafka-source-"
DESCRIBE = "For their lag, grant it: kafka-acls.sh --operation Describe --topic '*' --group '*'."


def kafka_works(settings: Settings) -> Iterator[Finding]:
    """Connect, then look at each topic."""
    servers = settings.kafka.bootstrap_servers
    try:
        client = admin(
            settings,
            client_id="kafka-health-doctor",
            bootstrap_timeout_ms=TIMEOUT_MS,
            request_timeout_ms=TIMEOUT_MS,
        )
    except HealthError as error:
        yield Finding("kafka", "failed", f"{error}. Look at [kafka] bootstrap_servers and options.")
        return
    try:
        cluster = client.describe_cluster()
        brokers = cluster["brokers"]
        # Brokers since 4.0 name those, too, that are registered and away.
        away = [broker["broker_id"] for broker in brokers if broker.get("is_fenced")]
        if away:
            down = ", ".join(map(str, away))
            text = f"Kafka at {servers} answers, but of its {len(brokers)} brokers these are down: {down}. Start them."
            yield Finding("kafka", "failed", text)
        else:
            yield Finding("kafka", "ok", f"Kafka at {servers} answers; the cluster has {len(brokers)} broker(s).")
        there = [broker["broker_id"] for broker in brokers if broker["broker_id"] not in away]
        yield from pushes.clients_asked(settings, client, there)
        yield from _topics(settings, client, len(brokers))
        yield from groups_readable(client)
    except KafkaError as error:
        yield Finding("kafka", "failed", f"Kafka at {servers} answered, then failed: {type(error).__name__}: {error}.")
    finally:
        client.close()


def _topics(settings: Settings, client: KafkaAdminClient, brokers: int) -> Iterator[Finding]:
    topics = settings.topics
    inputs = (*topics.metrics, *topics.logs)
    copies = declared.usual_replicas(brokers)
    declared_topics = (*declared.inputs(topics, replicas=copies), *declared.outputs(topics, copies))
    ours = {topic.name: topic for topic in declared_topics}
    existing = {topic["name"]: topic for topic in client.describe_topics()}
    for name in dict.fromkeys((*inputs, topics.health, topics.rejects)):
        if name in existing:
            yield from _topic(settings, client, existing[name], brokers)
            continue
        command = ours[name].command(settings.kafka.bootstrap_servers)
        text = f"It does not exist, or this user may not see it. 'kafka-health init' creates it, or: {command}"
        yield Finding(f"topic {name}", "failed", text)
    streams: dict[str, Stream] = {**dict.fromkeys(topics.metrics, "metrics"), **dict.fromkeys(topics.logs, "logs")}
    for name, stream in streams.items():
        if name in existing:
            yield from _records(settings, name, stream)


def _topic(settings: Settings, client: KafkaAdminClient, topic: Mapping[str, Any], brokers: int) -> Iterator[Finding]:
    """Leaders, rights, replication and configuration of a topic that is there."""
    name, about = topic["name"], f"topic {topic['name']}"
    read = name in (*settings.topics.metrics, *settings.topics.logs)
    states = name == settings.topics.health
    if trouble := extents(client, [name]).trouble:
        yield Finding(about, "failed", f"{trouble}. What is there can be neither read nor written: is a broker down?")
    yield from _rights(about, topic, {"READ"} if read else {"WRITE", "READ"} if states else {"WRITE"})
    config = _config(client, name)
    if risk := declared.replication_risk(topic, brokers, int(config.get("min.insync.replicas", 1))):
        yield Finding(about, "warning", f"It has {risk}.")
    if not config:
        text = "This user may not read its configuration; to have it checked, grant DescribeConfigs."
        yield Finding(about, "warning", text)
        return
    yield _policy(about, config, compacted=states)
    if read:
        yield _retention(about, config, settings.monitor.start_seconds_back)
    yield codecs.of_topic(about, config.get("compression.type", "producer"))


def _records(settings: Settings, topic: str, stream: Stream) -> Iterator[Finding]:
    """What the newest records of a topic are, and what they tell of clocks."""
    try:
        records, _ = newest(settings, topic, NEWEST)
        yield from records_readable(settings, topic, stream, records)
    except HealthError as error:
        yield Finding(f"topic {topic}", "warning", f"Its records could not be looked at: {error}.")
        return
    if stream == "metrics":
        yield from clocks.clocks_agree(settings, topic, records)
        yield from pushes.who_pushes(topic, records)


def _rights(about: str, topic: Mapping[str, Any], needed: set[str]) -> Iterator[Finding]:
    """What the brokers say this user may do; brokers before 2.3 do not say."""
    allowed = topic.get("authorized_operations")
    if not isinstance(allowed, list):
        return
    lacking = sorted(needed - set(allowed) if "ALL" not in allowed else ())
    if lacking:
        yield Finding(
            about, "failed", f"This user lacks the right to {' and '.join(lacking)}; grant it: kafka-acls.sh."
        )
    else:
        yield Finding(about, "ok", f"This user may {' and '.join(sorted(needed)).lower()}.")


def groups_readable(client: KafkaAdminClient) -> Iterator[Finding]:
    """May the monitor read as a group, and may the groups exporter see the groups of others."""
    about = "groups"
    if trouble := extents(client, [OFFSETS_TOPIC]).trouble:
        yield Finding(about, "failed", f"{trouble}. The groups that are kept there are not known: is a broker down?")
    name = f"{READERS}doctor"
    try:
        group = client.describe_groups([name])[name]
        error, allowed = group["error"] or "", group.get("authorized_operations")
    except AuthorizationError as refused:
        error, allowed = type(refused).__name__, None
    except (CoordinatorNotAvailableError, CoordinatorLoadInProgressError):
        if not trouble:
            yield Finding(about, "skipped", "No group has been in this cluster yet; ask again when one has.")
        return
    except KafkaError as failed:
        yield Finding(about, "warning", f"Groups could not be looked at: {type(failed).__name__}: {failed}.")
        return
    authorised = not error and isinstance(allowed, list)
    if GroupAuthorizationFailedError.__name__ in error or (authorised and not {"READ", "ALL"} & set(allowed or ())):
        yield Finding(
            about,
            "failed",
            f"The monitor reads in groups named {READERS}…, and this user lacks the right to READ in them; grant it: "
            f"kafka-acls.sh --operation Read --group {READERS} --resource-pattern-type prefixed.",
        )
    else:
        # Of a group that is not there yet, brokers say no more than that one may ask.
        yield Finding(about, "ok", f"This user may {'read in' if authorised else 'look at'} groups named {READERS}….")
    try:
        seen = client.list_groups()
    except AuthorizationError as error:
        yield Finding(about, "failed", f"This user may not list consumer groups: {type(error).__name__}. {DESCRIBE}")
        return
    except (CoordinatorNotAvailableError, CoordinatorLoadInProgressError):
        yield Finding(about, "skipped", "The brokers still load their consumer groups; ask again in a minute.")
        return
    except KafkaError as failed:
        yield Finding(about, "warning", f"Groups could not be listed: {type(failed).__name__}: {failed}.")
        return
    if seen:
        yield Finding(about, "ok", f"This user sees {len(seen)} consumer group(s), whose lag can be told.")
    else:
        text = "This user sees no consumer group: there is none, or it lacks the right to Describe them."
        yield Finding(about, "skipped", f"{text} {DESCRIBE}")


def _config(client: KafkaAdminClient, topic: str) -> Mapping[str, str]:
    names = ("cleanup.policy", "retention.ms", "compression.type", "min.insync.replicas")
    resource = ConfigResource(ConfigResourceType.TOPIC, topic, dict.fromkeys(names))
    configs = client.describe_configs([resource], config_filter="all")
    return {key: str(value["value"]) for key, value in configs["topic"][topic].items()}


def _policy(about: str, config: Mapping[str, str], compacted: bool) -> Finding:
    policy = config.get("cleanup.policy", "")
    if compacted and "compact" not in policy:
        return Finding(
            about,
            "failed",
            f"Its cleanup.policy is '{policy}': states of clients that change rarely would vanish. Set it to "
            "compact,delete.",
        )
    if not compacted and "compact" in policy:
        return Finding(
            about,
            "failed",
            f"Its cleanup.policy is '{policy}': older readings of a client would be thrown away. Set it to delete.",
        )
    return Finding(about, "ok", f"Its cleanup.policy is '{policy}', as it should be.")


def _retention(about: str, config: Mapping[str, str], needed_seconds: int) -> Finding:
    """Enough for a monitor that begins anew, and for one that was down over lunch."""
    kept_ms = int(config.get("retention.ms", "-1"))
    kept = "for ever" if kept_ms < 0 else f"for {kept_ms / 3_600_000:.1f} h"
    if 0 <= kept_ms < needed_seconds * 1000:
        return Finding(
            about,
            "failed",
            f"It keeps records {kept}, less than the {needed_seconds} s that a new monitor reads back "
            "([monitor] start_seconds_back). Raise retention.ms.",
        )
    return Finding(about, "ok", f"It keeps records {kept}.")
