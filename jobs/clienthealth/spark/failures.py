"""Why the query failed, in a sentence that says what to do, where the reason is one that people can mend."""

from __future__ import annotations

import re

from clienthealth.model.errors import DependencyError, HealthError, ServiceError, StateError
from clienthealth.settings import Settings

#: Characters of an error that nobody has a sentence for; Spark logs all of it.
MOST = 2000
#: Of a checkpoint.
ANOTHER = (
    "another monitor works on the checkpoint in {checkpoint}, which has one writer: stop one of the two, or give each "
    "a [monitor] checkpoint and history of its own"
)
_FAILED = "the streaming query failed: "
_ANEW = "begin anew with another folder in [monitor] checkpoint: open incidents are taken over from the history"
#: What Java and Spark say, and what that means; the first that fits. A StateError is one that a new start does not end.
_MEANINGS: tuple[tuple[str, type[HealthError], str], ...] = (
    (
        "No space left on device|Disk quota exceeded|not enough space",
        ServiceError,
        f"{_FAILED}the disk of {{places}} is full, or that of spark.local.dir: nothing is lost, free some space",
    ),
    (
        "Read-only file system|Permission denied|AccessDeniedException|Mkdirs failed to create|AccessControlException",
        ServiceError,
        f"{_FAILED}{{places}} cannot be written: mend the rights, or mount the disk for writing; nothing is lost",
    ),
    (
        "TimeoutException: Timed out waiting|TimeoutException: Call|No resolvable bootstrap|DisconnectException"
        "|Failed to construct kafka|not present in metadata|Failed to update metadata|Expiring \\d+ record",
        ServiceError,
        f"{_FAILED}Kafka at {{servers}} does not answer, or a partition has no leader: "
        "`kafka-health doctor` says which",
    ),
    (
        "AuthorizationException|TopicAuthorizationException|Not authorized",
        ServiceError,
        f"{_FAILED}this user may not read or write a topic; `kafka-health doctor` says which",
    ),
    (
        "AuthenticationException",
        ServiceError,
        f"{_FAILED}the brokers do not accept the user or certificate in [kafka] options",
    ),
    (
        r"CONCURRENT_STREAM_LOG_UPDATE|Multiple streaming (jobs|queries)|CONCURRENT_QUERY|Concurrent update to the log",
        StateError,
        ANOTHER,
    ),
    (
        r"sources? in the checkpoint offsets|UnsupportedLogVersion|maximum supported log version"
        r"|Detected newer checkpoint|Log file was malformed|Incomplete log file|INVALID_CHANGE_TO_STATE"
        r"|STATE_STORE_\w*(MISMATCH|NOT_COMPATIBLE)|NOT_MATCH_IN_STATE_METADATA|UNSUPPORTED_LOG_VERSION",
        StateError,
        f"the checkpoint in {{checkpoint}} was written by another release, or is damaged; run the release that wrote "
        f"it, or {_ANEW}",
    ),
    (
        r"CANNOT_LOAD_STATE_STORE|Error reading (streaming )?(state|delta) file|FileNotFoundException[^\n]*/state/"
        r"|MISSING_STATE_DIRECTORY|CHECKPOINT_MISSING_METADATA_FILE|CHECKSUM_VERIFICATION_FAILED",
        StateError,
        f"the state in {{checkpoint}} is damaged; {_ANEW}",
    ),
)
#: A worker of Spark looked for a module in vain.
_MODULE = r"ModuleNotFoundError: No module named '([\w.]+)'"


def explained(message: str, settings: Settings) -> HealthError:
    """The error to raise for what Java tells: one whose exit code is 2 where nothing changes until
    somebody does something.
    """
    state_error = re.search(r"StateError: ([^\n]+)", message)
    if state_error:
        return StateError(state_error[1])
    missing = re.search(_MODULE, message)
    if missing:
        return DependencyError(
            f"the Python of an executor has no module '{missing[1]}': it needs this program, of the same release, and "
            "its extra 'spark' (deploy/cluster.md, spark-submit)"
        )
    checkpoint, history = settings.monitor.checkpoint, settings.monitor.history
    named = {"places": f"{checkpoint} or {history}", "servers": settings.kafka.bootstrap_servers}
    for pattern, kind, sentence in _MEANINGS:
        if re.search(pattern, message):
            return kind(sentence.format(checkpoint=checkpoint, **named))
    lines = [line for line in message.splitlines() if line and not line.startswith("\tat ")]
    return ServiceError(f"{_FAILED}{chr(10).join(lines)[:MOST]}")
