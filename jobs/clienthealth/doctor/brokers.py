"""Checks of Kafka: reachable, authorised, topics as they should be, clocks that agree."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import KafkaError

from clienthealth.doctor import Finding
from clienthealth.errors import HealthError
from clienthealth.settings import Settings
from clienthealth_exporters.kafka import admin, consumer

TIMEOUT_MS = 10_000
#: A producer may send a reading a little before or after our clock; more shifts windows.
SKEW_WARNING_SECONDS = 5.0
CREATE = "kafka-topics.sh --bootstrap-server {} --create --topic {}{}"


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
        yield Finding("kafka", "ok", f"Kafka at {servers} answers; the cluster has {len(brokers)} broker(s).")
        yield from _topics(settings, client)
    except KafkaError as error:
        yield Finding("kafka", "failed", f"Kafka at {servers} answered, then failed: {type(error).__name__}: {error}.")
    finally:
        client.close()


def _topics(settings: Settings, client: KafkaAdminClient) -> Iterator[Finding]:
    topics = settings.topics
    inputs = (*topics.metrics, *topics.logs)
    known = {topic["name"]: topic for topic in client.describe_topics()}
    for name in dict.fromkeys((*inputs, topics.health, topics.rejects)):
        about = f"topic {name}"
        if name not in known:
            policy = " --config cleanup.policy=compact,delete" if name == topics.health else ""
            command = CREATE.format(settings.kafka.bootstrap_servers, name, policy)
            yield Finding(about, "failed", f"It does not exist, or this user may not see it. To create it: {command}")
            continue
        wanted = {"READ"} if name in inputs else {"WRITE"} | ({"READ"} if name == topics.health else set())
        yield from _rights(about, known[name], wanted)
        config = _config(client, name)
        if not config:
            text = "This user may not read its configuration; to have it checked, grant DescribeConfigs."
            yield Finding(about, "warning", text)
            continue
        yield _policy(about, config, compacted=name == topics.health)
        if name in inputs:
            yield _retention(about, config, settings.monitor.start_seconds_back)
    for name in topics.metrics:
        if name in known:
            yield from _clock(settings, name, [part["partition_index"] for part in known[name]["partitions"]])


def _rights(about: str, topic: Mapping[str, Any], wanted: set[str]) -> Iterator[Finding]:
    """What the brokers say this user may do; brokers before 2.3 do not say."""
    allowed = topic.get("authorized_operations")
    if not isinstance(allowed, list):
        return
    lacking = sorted(wanted - set(allowed) if "ALL" not in allowed else ())
    if lacking:
        yield Finding(
            about, "failed", f"This user lacks the right to {' and '.join(lacking)}; grant it: kafka-acls.sh."
        )
    else:
        yield Finding(about, "ok", f"This user may {' and '.join(sorted(wanted)).lower()}.")


def _config(client: KafkaAdminClient, topic: str) -> Mapping[str, str]:
    names = ("cleanup.policy", "retention.ms")
    resource = ConfigResource(ConfigResourceType.TOPIC, topic, dict.fromkeys(names))
    found = client.describe_configs([resource], config_filter="all")
    return {key: str(value["value"]) for key, value in found["topic"][topic].items()}


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


def _clock(settings: Settings, topic: str, partitions: list[int]) -> Iterator[Finding]:
    """The newest record against our clock: one from the future betrays a clock that is wrong, theirs or ours."""
    about = "clock"
    reader = consumer(settings, client_id="kafka-health-doctor", request_timeout_ms=TIMEOUT_MS, group_id=None)
    try:
        wanted = [TopicPartition(topic, number) for number in partitions]
        ends = reader.end_offsets(wanted)
        wanted = [partition for partition in wanted if ends[partition] > 0]
        reader.assign(wanted)
        for partition in wanted:
            reader.seek(partition, ends[partition] - 1)
        records = [record for batch in reader.poll(timeout_ms=3000).values() for record in batch] if wanted else []
    except KafkaError as error:
        yield Finding(about, "warning", f"{topic} could not be read: {type(error).__name__}: {error}.")
        return
    finally:
        reader.close()
    if not records:
        yield Finding(about, "skipped", f"{topic} has no records yet, so clocks cannot be compared.")
        return
    ahead = max(record.timestamp for record in records) / 1000 - time.time()
    if ahead > settings.monitor.future_seconds:
        yield Finding(
            about,
            "failed",
            f"The newest record of {topic} is {ahead:.0f} s in the future; such records are rejected. Mend the clock "
            "of its sender, or of this machine.",
        )
    elif ahead > SKEW_WARNING_SECONDS:
        yield Finding(about, "warning", f"The newest record of {topic} is {ahead:.0f} s in the future. Compare clocks.")
    else:
        yield Finding(about, "ok", f"The newest record of {topic} is {max(0.0, -ahead):.0f} s old by our clock.")
