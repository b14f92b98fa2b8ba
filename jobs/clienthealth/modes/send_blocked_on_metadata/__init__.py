"""`send()` blocks its caller, waiting for metadata that does not come.

Mechanism. `send()` is asynchronous only once the producer knows the topic's partitions. With the brokers out of
reach, or a topic that does not exist, `waitOnMetadata` holds the *caller* for up to `max.block.ms` (60 s by default),
on every call. Request threads pile up.

What proves it. The exception that ends the wait; but it comes only after `max.block.ms`. From the first second a
thread dump shows callers in `KafkaProducer.waitOnMetadata`, and the broker's answer that the topic is unknown stands
in the log. Callers found waiting only suspect the mode: during a short broker outage 4.x callers sit in the same
place for up to 36 s and nothing is lost. That the connection fails says why, never that a caller waits.

Known gaps. Metrics are nearly blind: `metadata-wait-time-ns-total` counts successes only, and failed sends appear in
`record-error-total` after `max.block.ms`. So a producer that sends is `ok`, and one that sends nothing is `unknown`
where no line of its log and no dump of its process was ever read: it may be idle or blocked. librdkafka's `produce()`
never waits for metadata.
"""

from __future__ import annotations

from clienthealth.logs.also_seen import AUTHENTICATION, TLS
from clienthealth.logs.self_descriptions import PRODUCER_CONFIG
from clienthealth.modes import Cause, LiveMode
from clienthealth.modes.send_blocked_on_metadata.health import doubt, worth_a_dump
from clienthealth.modes.send_blocked_on_metadata.lines import (
    CONNECTION_FAILED,
    ID,
    LINES,
    METADATA_WAITED,
    TOPIC_ERRORS,
    UNREACHABLE,
)
from clienthealth.modes.send_blocked_on_metadata.rules import GATE, Thresholds, judge, recovered


def until_then(advice: str) -> dict[str, str]:
    """What helps, and what helps until then, in the words of the libraries whose send() waits."""
    fast = "so that callers fail fast instead of piling up"
    return {
        "": advice,
        "java": f"{advice} Until then lower max.block.ms, {fast}.",
        "kafka-python": f"{advice} Until then lower max_block_ms, {fast}.",
    }


MODE = LiveMode(
    id=ID,
    title="send() blocked waiting for metadata",
    summary="Callers of send() are held up waiting for metadata that the producer does not get.",
    impact=(
        "Every call of send() blocks its thread for up to max.block.ms (60 s by default) and then fails, so request "
        "threads pile up and the records are lost."
    ),
    action=(
        "Look at the cause: create the topic or correct its name, let the client write to it, or restore the way to "
        "the bootstrap address; until then let callers fail fast, so that they do not pile up."
    ),
    kinds=frozenset({"producer"}),
    evidence=("log", "thread-dump", "metric"),
    thresholds=Thresholds(),
    confused_with=(
        "A short broker outage: callers sit in the same place for up to 36 s, then go on and nothing is lost.",
        "A full buffer: callers wait for memory, not for metadata, and the client counts them.",
        "A topic that is being created: unknown for a moment at the first send.",
        "A callback that sends on the I/O thread: the waiting thread is the network thread itself, see "
        "producer-callback-deadlock.",
    ),
    causes=(
        Cause(
            "topic-missing",
            "The topic {topic} does not exist on the cluster.",
            vague="The topic does not exist on the cluster.",
            advice=until_then("Create the topic, or correct its name in the application; callers then go on."),
        ),
        Cause(
            "topic-denied",
            "The client may not use the topic {topic} (TOPIC_AUTHORIZATION_FAILED).",
            vague="The client may not use the topic (TOPIC_AUTHORIZATION_FAILED).",
            title="Producer may not use its topic, so send() fails",
            summary="The brokers refuse the producer its topic, so send() blocks or fails.",
            advice={
                "": "Grant the client's principal Describe and Write on the topic (kafka-acls --list shows what it "
                "has), or correct the topic's name; no restart and no other timeout helps."
            },
        ),
        Cause(
            "partition-missing",
            "The topic {topic} has no partition {partition}.",
            vague="The topic has no such partition.",
            advice=until_then(
                "Add the partition, or let the application name one that the topic has; it must not cache their number."
            ),
        ),
        Cause(
            "cluster-unreachable",
            "No broker of {bootstrap} answers, so the producer never gets its metadata.",
            vague="No broker answers, so the producer never gets its metadata.",
            advice=until_then(
                "Try the bootstrap address from where the client runs (name service, port, firewall, and whether the "
                "listener wants TLS); correct it, or restore the way to it."
            ),
        ),
        Cause(
            "authentication",
            "The brokers do not let the client in: {reason}.",
            vague="The brokers do not let the client in.",
            title="Producer cannot log in, so send() blocks or fails",
            advice={
                "": "Correct what the line names: the mechanism, the user, the password or the certificate, on the "
                "side that is wrong; no restart of brokers and no other timeout helps."
            },
        ),
        Cause(
            "unknown",
            "Metadata does not come, and nothing tells whether the topic or the cluster is missing.",
            assumed=True,
        ),
    ),
    judge=judge,
    lines=LINES,
    reads=(METADATA_WAITED, TOPIC_ERRORS, UNREACHABLE, CONNECTION_FAILED, AUTHENTICATION, TLS, PRODUCER_CONFIG),
    gate=GATE,
    recovered=recovered,
    doubt=doubt,
    sums=frozenset({"failed_sends"}),
    peaks=frozenset({"blocked_threads", "longest_block_seconds"}),
    worth_a_dump=worth_a_dump,
)
