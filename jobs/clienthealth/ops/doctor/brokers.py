"""Check Kafka: the connection, the topics, the user's rights, and the subscriptions to clients' metrics.

A subscription is configured in the cluster, and makes clients push their metrics (KIP-714).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
from clienthealth.model.subscription import Subscription, brokers_with_plugin, subscriptions, takes_pushes
from clienthealth.model.telemetry import Stream
from clienthealth.model.wording import listing
from clienthealth.ops.doctor import Finding, State, machine
from clienthealth.ops.doctor.records import CLIENT, clocks_agree, newest, pushing_clients, records_readable
from clienthealth.platform import topics as declared
from clienthealth.platform.kafka import OFFSETS_TOPIC, admin, extents
from clienthealth.settings import Settings

NEWEST = 500
#: The ids of Spark's consumer groups begin with this text.
READERS = "spark-kafka-source-"
DESCRIBE = "To measure the lag of groups, grant Describe: kafka-acls.sh --operation Describe --topic '*' --group '*'."
PUSHES = "pushes"
UNSEEN = "This user may not see which metrics the brokers request from clients"
GRANT = "grant DescribeConfigs: kafka-acls.sh --operation DescribeConfigs --cluster."


def kafka_works(settings: Settings) -> Iterator[Finding]:
    """Check that the cluster answers, then check our plugin on its brokers, the topics and the consumer groups."""
    servers = settings.kafka.bootstrap_servers
    try:
        client = admin(settings, **CLIENT)
    except HealthError as error:
        yield Finding("kafka", "failed", f"{error}. Check [kafka] bootstrap_servers and options.")
        return
    try:
        brokers = client.describe_cluster()["brokers"]
        # From Kafka 4.0 on, the list of brokers includes brokers that are down (fenced).
        away = [broker["broker_id"] for broker in brokers if broker.get("is_fenced")]
        if away:
            down = ", ".join(map(str, away))
            text = f"Kafka at {servers} answers, but {len(away)} of {len(brokers)} brokers are down: {down}."
            yield Finding("kafka", "failed", f"{text} Start them.")
        else:
            yield Finding("kafka", "ok", f"Kafka at {servers} answers; the cluster has {len(brokers)} broker(s).")
        there = [broker["broker_id"] for broker in brokers if broker["broker_id"] not in away]
        yield from clients_asked(settings, client, there)
        yield from _topics(settings, client, len(brokers))
        yield from groups_readable(client)
    except KafkaError as error:
        yield Finding("kafka", "failed", f"Kafka at {servers} answered, then failed: {type(error).__name__}: {error}.")
    finally:
        client.close()


def _topics(settings: Settings, client: KafkaAdminClient, brokers: int) -> Iterator[Finding]:
    topics, copies = settings.topics, declared.usual_replicas(brokers)
    existing = {topic["name"]: topic for topic in client.describe_topics()}
    for topic in (*declared.inputs(topics, replicas=copies), *declared.outputs(topics, copies)):
        if topic.name in existing:
            yield from _topic(settings, client, existing[topic.name], brokers)
            continue
        command = topic.command(settings.kafka.bootstrap_servers)
        text = f"The topic does not exist, or this user may not see it. Run 'kafka-health init', or: {command}"
        yield Finding(f"topic {topic.name}", "failed", text)
    streams: dict[str, Stream] = {**dict.fromkeys(topics.metrics, "metrics"), **dict.fromkeys(topics.logs, "logs")}
    for name in filter(existing.__contains__, streams):
        try:
            records, _ = newest(settings, name, NEWEST)
            yield from records_readable(settings, name, streams[name], records)
            if streams[name] == "metrics":
                yield from clocks_agree(settings, name, records)
                yield from pushing_clients(name, records)
        except HealthError as error:
            yield Finding(f"topic {name}", "warning", f"The topic's records could not be read: {error}.")


def _topic(settings: Settings, client: KafkaAdminClient, topic: Mapping[str, Any], brokers: int) -> Iterator[Finding]:
    name, about = topic["name"], f"topic {topic['name']}"
    read = name in (*settings.topics.metrics, *settings.topics.logs)
    states = name == settings.topics.health
    if trouble := extents(client, [name]).trouble:
        yield Finding(
            about,
            "failed",
            f"{trouble}. Nothing can be read from or written to these partitions. Check whether a broker is down.",
        )
    yield from _rights(about, topic, {"READ"} if read else {"WRITE", "READ"} if states else {"WRITE"})
    config = configuration(client, name)
    if risk := declared.replication_risk(topic, brokers, int(config.get("min.insync.replicas", 1))):
        yield Finding(about, "warning", f"The topic has {risk}.")
    if not config:
        text = "This user may not read the topic's configuration. To check it, grant DescribeConfigs."
        yield Finding(about, "warning", text)
        return
    policy = config.get("cleanup.policy", "")
    if states == ("compact" in policy):
        yield Finding(about, "ok", f"The topic's cleanup.policy is '{policy}', as it should be.")
    else:
        harm, wanted = "compaction would delete older samples of a client", "delete"
        if states:
            harm, wanted = "without compaction, the topic also keeps all earlier states of a client", "compact,delete"
        yield Finding(about, "failed", f"The topic's cleanup.policy is '{policy}': {harm}. Set the policy to {wanted}.")
    if read:
        kept_ms, needed = int(config.get("retention.ms", "-1")), settings.monitor.start_seconds_back
        if 0 <= kept_ms < needed * 1000:
            kept = f"The topic keeps records for only {kept_ms / 1000:.0f} s"
            needs = f"a new monitor reads the last {needed} s ([monitor] start_seconds_back)"
            yield Finding(about, "failed", f"{kept}, but {needs}. Raise retention.ms.")
        else:
            kept = "for ever" if kept_ms < 0 else f"for {kept_ms / 3_600_000:.1f} h"
            yield Finding(about, "ok", f"The topic keeps records {kept}.")
    yield machine.of_topic(about, config.get("compression.type", "producer"))


def _rights(about: str, topic: Mapping[str, Any], needed: set[str]) -> Iterator[Finding]:
    """Check that this user has the rights in `needed` on a topic. Yields nothing for brokers before Kafka 2.3."""
    allowed = topic.get("authorized_operations")
    if not isinstance(allowed, list):
        return
    if lacking := sorted(needed - set(allowed)) if "ALL" not in allowed else []:
        yield Finding(about, "failed", f"This user lacks the right to {listing(lacking)}; grant it with kafka-acls.sh.")
    else:
        yield Finding(about, "ok", f"This user may {' and '.join(sorted(needed)).lower()}.")


def groups_readable(client: KafkaAdminClient) -> Iterator[Finding]:
    """Check that this user may list groups, and has the READ right on the monitor's consumer groups."""
    about = "groups"
    if trouble := extents(client, [OFFSETS_TOPIC]).trouble:
        yield Finding(
            about,
            "failed",
            f"{trouble}. The groups stored in these partitions are unknown. Check whether a broker is down.",
        )
    name = f"{READERS}doctor"
    try:
        group = client.describe_groups([name])[name]
        error, allowed = group["error"] or "", group.get("authorized_operations")
    except AuthorizationError as refused:
        error, allowed = type(refused).__name__, None
    except (CoordinatorNotAvailableError, CoordinatorLoadInProgressError):
        if not trouble:
            yield Finding(
                about, "skipped", "No group has ever existed in this cluster; run the check again when a group exists."
            )
        return
    except KafkaError as failed:
        yield Finding(about, "warning", f"Groups could not be described: {type(failed).__name__}: {failed}.")
        return
    authorised = not error and isinstance(allowed, list)
    if GroupAuthorizationFailedError.__name__ in error or (authorised and not {"READ", "ALL"} & set(allowed or ())):
        text = f"This user lacks the READ right on the monitor's consumer groups, which are named {READERS}…. Grant it:"
        grant = f"kafka-acls.sh --operation Read --group {READERS} --resource-pattern-type prefixed"
        yield Finding(about, "failed", f"{text} {grant}.")
    else:
        # Brokers report no rights on a group that does not exist.
        yield Finding(about, "ok", f"This user may {'read' if authorised else 'describe'} groups named {READERS}….")
    yield Finding(about, *_groups_seen(client))


def _groups_seen(client: KafkaAdminClient) -> tuple[State, str]:
    try:
        seen = client.list_groups()
    except AuthorizationError as error:
        return "failed", f"This user may not list groups: {type(error).__name__}. {DESCRIBE}"
    except (CoordinatorNotAvailableError, CoordinatorLoadInProgressError):
        return "skipped", "The brokers are still loading their groups; run the check again in a minute."
    except KafkaError as failed:
        return "warning", f"Groups could not be listed: {type(failed).__name__}: {failed}."
    if seen:
        return "ok", f"This user sees {len(seen)} consumer group(s) and can measure their lag."
    why = "no group exists, or the user lacks the Describe right"
    return "skipped", f"This user sees no consumer group: {why}. {DESCRIBE}"


def clients_asked(settings: Settings, client: KafkaAdminClient, nodes: Sequence[int]) -> Iterator[Finding]:
    """Check that the brokers have our plugin, and that they ask clients for metrics. `nodes`: ids of running brokers.

    Yields only one finding, with the state `skipped`, if no broker has our plugin, if the brokers are older than 3.7,
    or if this user may not see the brokers' configuration.
    """
    try:
        with_plugin = brokers_with_plugin(client, nodes)
        present = subscriptions(client)
        idle = [node for node in with_plugin or () if not takes_pushes(client, node)]
    except KafkaError as error:
        yield Finding(PUSHES, "skipped", f"{UNSEEN} ({type(error).__name__}); {GRANT}")
        return
    if not with_plugin or present is None:
        text = (
            "No broker has our plugin, so no client pushes metrics. To install it, see deploy/broker-plugin/README.md."
        )
        if with_plugin is None:
            text = f"{UNSEEN}; {GRANT}"
        elif present is None:
            text = "The brokers are older than 3.7: clients cannot push their metrics."
        yield Finding(PUSHES, "skipped", text)
        return
    lacking = [node for node in nodes if node not in with_plugin]
    if lacking:
        text = f"{len(lacking)} of {len(nodes)} brokers lack our plugin ({', '.join(map(str, lacking))})"
        yield Finding(
            PUSHES,
            "warning",
            f"{text}: metrics pushed to these brokers are lost. Install the plugin, and restart these brokers.",
        )
    if idle:
        text = f"The plugin of broker(s) {', '.join(map(str, idle))} accepts no pushes, because its settings are wrong"
        yield Finding(
            PUSHES,
            "failed",
            f"{text}. The broker's log names these settings in a line with 'Client telemetry is not taken'.",
        )
    if not (lacking or idle):
        text = f"All {len(nodes)} broker(s) have our plugin."
        yield Finding(
            PUSHES,
            "ok",
            f"{text} From Kafka 4.2 on, only a broker's log shows whether the plugin's settings are wrong.",
        )
    of_java, of_librdkafka = Subscription.ours()
    yield _asked(settings, of_java, present, "Clients", "failed")
    yield _asked(settings, of_librdkafka, present, "Clients on librdkafka", "skipped")


def _asked(
    settings: Settings, wanted: Subscription, present: Mapping[str, Subscription], client: str, otherwise: State
) -> Finding:
    covering = [one for one in present.values() if one.covers(wanted)]
    if covering:
        one = min(covering, key=lambda one: one.interval_ms)
        often = f"every {one.interval_ms / 1000:g} s"
        return Finding(PUSHES, "ok", f"{client} are requested to push their metrics {often} ({one.name}).")
    command = wanted.command(settings.kafka.bootstrap_servers)
    lacking = "all metrics that we read" if present else "metrics"
    text = f"{client} have no subscription that requests {lacking}"
    return Finding(PUSHES, otherwise, f"{text}. Run 'kafka-health init', or: {command}")


def configuration(client: KafkaAdminClient, topic: str) -> Mapping[str, str]:
    """Return those options of a topic that `kafka-health doctor` checks; {} if this user may not read the options."""
    names = ("cleanup.policy", "retention.ms", "compression.type", "min.insync.replicas")
    resource = ConfigResource(ConfigResourceType.TOPIC, topic, dict.fromkeys(names))
    configs = client.describe_configs([resource], config_filter="all")
    return {key: str(value["value"]) for key, value in configs["topic"][topic].items()}
