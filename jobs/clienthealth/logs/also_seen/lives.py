"""Clients that lose their group, or their memory."""

from __future__ import annotations

from clienthealth.logs.also_seen._trouble import Trouble
from clienthealth.logs.wordings import Wording

COORDINATOR = Trouble(
    "coordinator lost again and again",
    (
        Wording(
            "coordinator-lost",
            {"java": "0.11 and newer, AbstractCoordinator.markCoordinatorUnknown and CoordinatorRequestManager"},
            "is unavailable or invalid",
            r"Group coordinator [^\n]{1,300}? is unavailable or invalid",
        ),
        Wording(
            "coordinator-dead",
            {
                "java": "0.9 and 0.10, AbstractCoordinator.coordinatorDead",
                "kafka-python": "coordinator/base.py, coordinator_dead",
                "aiokafka": "consumer/group_coordinator.py, coordinator_dead",
            },
            "Marking the coordinator ",
            r"Marking the coordinator (?:dead|\S{1,300}(?: \([^()\n]{0,200}\))? dead)",
        ),
        Wording(
            "librdkafka-coordinator-lost",
            {"librdkafka": "rdkafka_broker.c, rd_kafka_broker_fail, of the broker named GroupCoordinator"},
            "GroupCoordinator: ",
            r"\bGroupCoordinator: \S{1,300}: (?:Disconnected|Connect to|[\w ]{1,80}timed out|Timed out)",
        ),
    ),
    kind="consumer",
    id="coordinator-churn",
    sentence="The consumer lost its group's coordinator several times, and committed nothing meanwhile.",
    action="Look at the broker that it names: restarts, long pauses, a network in between.",
    least=3,
    apart_seconds=600,
    unserved=True,
)

REBALANCES = Trouble(
    "rebalances again and again",
    (
        Wording(
            "rejoining-group",
            {
                "java": "0.9 and newer, AbstractCoordinator.sendJoinGroupRequest",
                "kafka-python": "coordinator/base.py, _send_join_group_request",
                "aiokafka": "consumer/group_coordinator.py, CoordinatorGroupRebalance.perform_group_join",
            },
            "-)joining group",
            r"\(Re-\)joining group",
        ),
        Wording(
            "kafkajs-joined-group",
            {"kafkajs": "consumer/consumerGroup.js, join"},
            "Consumer has joined the group",
            r"\[ConsumerGroup\] Consumer has joined the group",
        ),
    ),
    kind="consumer",
    id="rebalance-storm",
    sentence="The group divides its partitions anew again and again, and nothing is consumed meanwhile.",
    action="Find the member that comes and goes: its log says why it leaves. A rolling restart looks alike, and ends.",
    least=8,
    apart_seconds=120,
)

OUT_OF_MEMORY = Trouble(
    "out of memory",
    (
        Wording(
            "out-of-memory",
            {"jvm": "java.lang.OutOfMemoryError, with the reasons that HotSpot gives"},
            "OutOfMemoryError: ",
            r"\bOutOfMemoryError: (?P<reason>Java heap space|GC overhead limit exceeded|Direct buffer memory|Metaspace|"
            r"(?:Cannot reserve|Unable to allocate) [^\n]{1,100}|"
            r"unable to create (?:new )?native thread|Requested array size exceeds VM limit)",
        ),
    ),
    process=True,
    id="out-of-memory",
    sentence="The JVM had no memory left; whichever thread asked next for some failed or died.",
    action="Look which threads are missing since, and restart. With frames of Kafka's network below it, it often is a "
    "client without TLS that talks to a listener with TLS.",
)
