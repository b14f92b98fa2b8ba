"""Records wait and nothing is acknowledged, although the producer knows its topic.

Mechanism. Metadata is known, so `send()` returns at once. But the partition's leader cannot be reached or refuses: an
advertised listener out of reach, a broker that died after its metadata was cached, too few in-sync replicas, a network
that drops packets. The producer tries again until `delivery.timeout.ms` (2 min by default) has passed, and then gives
the record up.

What proves it. The number of records sent, less those that are to be retried, reaches no new high while work waits. And
there is a sign of trouble: connections that are lost or fail, requests without a response, retries, failed records.
Once records expire (the client logs it, `record-error-total` rises) it is no outage that ends in time any more:
confirmed. Before that it is suspected, at half of `delivery.timeout.ms` or after 40 s.

Known gaps. Clients before 1.0 do not count. With acks=0 nothing is ever acknowledged: what counts then is that records
go out. A stall of one partition among several that go on shows in the log alone. librdkafka counts a record that is
sent again as sent, so that answers that are refusals look like progress: its log tells.
"""

from __future__ import annotations

from clienthealth.logs.also_seen import AUTHENTICATION, TLS
from clienthealth.modes import Cause, LiveMode
from clienthealth.modes.delivery_stalled.lines import ID, LINES
from clienthealth.modes.delivery_stalled.rules import GATE, Thresholds, judge, recovered
from clienthealth.modes.producer_not_closed.lines import ID as NOT_CLOSED
from clienthealth.modes.send_blocked_on_metadata.lines import (
    CONNECTION_FAILED,
    CONNECTION_FAILED_SOMEWHERE,
)

MODE = LiveMode(
    id=ID,
    title="Records wait and nothing is delivered",
    summary="The producer takes records, but no broker acknowledges any of them.",
    impact=(
        "Records pile up in the producer's memory and are given up after delivery.timeout.ms (2 min by default), each "
        "of them lost unless the application sends it again."
    ),
    action=(
        "Open the way to the brokers that the cause names: the advertised address, the missing replicas or the "
        "network; records that have not expired are then delivered by themselves."
    ),
    kinds=frozenset({"producer"}),
    evidence=("metric", "log"),
    thresholds=Thresholds(),
    confused_with=(
        "Back-pressure and quotas: the buffer is full, but records go on being acknowledged.",
        "A broker that is restarted, or an outage that ends: suspected at most, and nothing expires.",
        "A callback deadlock: the I/O thread stands still, here it goes on; a thread dump is innocent.",
        "send() blocked on metadata: nothing gets into the buffer at all.",
        "A long linger.ms: batches wait, but no connection is lost and nothing is tried again.",
        "A producer with acks=0: nothing is acknowledged by design, and records go out.",
    ),
    causes=(
        Cause(
            "unreachable-node",
            "The broker at {address} cannot be reached from here although the bootstrap address answers.",
            vague="A broker cannot be reached from here although the bootstrap address answers.",
            advice={
                "": "Try the address from where the client runs; correct what the broker advertises "
                "(advertised.listeners) or open the way to it. Records that have not expired are then delivered."
            },
        ),
        Cause(
            "authentication",
            "A broker that was reached before does not let the client in: {reason}.",
            vague="A broker does not let the client in.",
            title="Producer cannot log in any more, so nothing is delivered",
            advice={
                "": "Correct what the line names: a password or certificate that was changed or has expired, on the "
                "side that is wrong; what waits is delivered then, if it has not expired before."
            },
        ),
        Cause(
            "not-enough-replicas",
            "Too few replicas are in sync for the acknowledgements that are asked for.",
            title="Too few replicas in sync, so nothing is delivered",
            advice={
                "": "Bring the missing brokers of the partition back (kafka-topics --describe "
                "--under-min-isr-partitions names them); records that have not expired are then delivered."
            },
        ),
        Cause(
            "refused",
            "The brokers answer, and refuse what is sent: the client's log would say why.",
            title="Brokers refuse what the producer sends",
            advice={"": "Read the error in the client's log (at WARN) and mend what it names; waiting does not help."},
            assumed=True,
        ),
        Cause(
            "timeouts",
            "The brokers do not answer in time, so records expire in the buffer.",
            advice={
                "": "Look at the brokers that lead the partitions (request queues, disks) and at the network between; "
                "records that have not expired are delivered by themselves once they answer."
            },
            assumed=True,
        ),
    ),
    judge=judge,
    lines=LINES,
    reads=(*LINES, CONNECTION_FAILED, CONNECTION_FAILED_SOMEWHERE, AUTHENTICATION, TLS),
    gate=GATE,
    recovered=recovered,
    explains=frozenset({NOT_CLOSED}),
    sums=frozenset({"records_expired"}),
    peaks=frozenset({"stalled_seconds"}),
    momentary=frozenset({"first_expiry_in_seconds"}),
)
