"""What clients log when an application does not come back to poll()."""

from __future__ import annotations

from clienthealth.logs.wordings import Meaning, Wording

ID = "consumer-stalled"

POLL_EXPIRED = Meaning(
    "an application has not called poll() in time",
    (
        Wording(
            "poll-timeout-expired",
            {"java": "AbstractCoordinator, HeartbeatThread.run"},
            "onsumer poll timeout has expired",
            r"[Cc]onsumer poll timeout has expired",
        ),
        Wording(
            "python-poll-timeout-expired",
            {"kafka-python": "coordinator/base.py, HeartbeatThread"},
            "Heartbeat poll expired, leaving group",
            r"Heartbeat poll expired, leaving group",
        ),
        Wording(
            "librdkafka-poll-interval-exceeded",
            {"librdkafka": "1.0 and newer, rdkafka_cgrp.c, rd_kafka_cgrp_max_poll_interval_check_tmr_cb"},
            "Application maximum poll interval",
            r"Application maximum poll interval \((?P<limitMs>\d+)ms\) exceeded by (?P<overMs>\d+)ms",
        ),
    ),
    kind="consumer",
)
COMMIT_REFUSED = Meaning(
    "a commit was refused, as the group goes on without this member",
    (
        Wording(
            "commit-refused",
            {"java": "CommitFailedException", "kafka-python": "errors.py, CommitFailedError"},
            "ommit cannot be completed since the ",
            r"[Cc]ommit cannot be completed since the (?:consumer (?:is not|isn't) part of an active group"
            r"|group has already rebalanced)",
        ),
    ),
    kind="consumer",
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
    ),
    process=True,
)
LINES = (POLL_EXPIRED, COMMIT_REFUSED, THREAD_DIED)
