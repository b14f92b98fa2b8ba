"""What clients log when an application does not come back to poll()."""

from __future__ import annotations

from clienthealth.logs.wordings import Meaning, Wording

ID = "consumer-stalled"

POLL_EXPIRED = Meaning(
    "an application has not called poll() in time",
    (
        Wording(
            "poll-timeout-expired",
            {
                "java": "AbstractCoordinator, HeartbeatThread.run",
                "kafka-python": "2.1 and newer, coordinator/base.py, the heartbeat's loop",
            },
            "onsumer poll timeout has expired",
            r"[Cc]onsumer poll timeout has expired",
        ),
        Wording(
            "python-poll-timeout-expired",
            {"kafka-python": "1.4 to 2.0, coordinator/base.py, HeartbeatThread.run"},
            "Heartbeat poll expired, leaving group",
            r"Heartbeat poll expired, leaving group",
        ),
        Wording(
            "librdkafka-poll-interval-exceeded",
            {"librdkafka": "1.0 and newer, rdkafka_cgrp.c, rd_kafka_cgrp_max_poll_interval_check_tmr_cb"},
            "Application maximum poll interval",
            r"Application maximum poll interval \((?P<limitMs>\d{1,12})ms\) exceeded by (?P<overMs>\d{1,12})ms",
        ),
        Wording(
            "librdkafka-poll-interval-error",
            {"librdkafka": "1.0 and newer, rdkafka.c, RD_KAFKA_RESP_ERR__MAX_POLL_EXCEEDED"},
            "Local: Maximum application poll interval",
            r"Local: Maximum application poll interval \(max\.poll\.interval\.ms\) exceeded",
        ),
    ),
    kind="consumer",
    away=True,
)
COMMIT_REFUSED = Meaning(
    "a commit was refused, as the group goes on without this member",
    (
        Wording(
            "commit-refused",
            {
                "java": "CommitFailedException",
                "kafka-python": "errors.py, CommitFailedError",
                "aiokafka": "consumer/group_coordinator.py; errors.py, CommitFailedError",
            },
            "ommit cannot be completed since the ",
            r"[Cc]ommit cannot be completed since the (?:consumer (?:is not|isn't) part of an active group"
            r"|group has already rebalanced)",
        ),
    ),
    kind="consumer",
    away=True,
)
THREAD_DIED = Meaning(
    "a thread has ended by an exception that nobody caught",
    (
        Wording(
            "thread-died",
            {"java": "of the JVM: ThreadGroup.uncaughtException"},
            "Exception in thread ",
            r'^Exception in thread "(?P<died>[^"\n]{1,200})" ',
        ),
        Wording(
            "python-thread-died",
            {"python": "3.8 and newer, threading.excepthook"},
            "Exception in thread ",
            r"^Exception in thread (?P<died>[^\"\n]{1,200}):\nTraceback ",
        ),
    ),
    process=True,
)
LINES = (POLL_EXPIRED, COMMIT_REFUSED, THREAD_DIED)
