"""A failed Spark query gives one sentence that says why it failed and what to do."""

from __future__ import annotations

import pytest

from clienthealth.model.errors import DependencyError, ServiceError, StateError
from clienthealth.settings import Settings
from clienthealth.spark.failures import explained


@pytest.mark.parametrize(
    ("java_message", "kind", "sentence"),
    [
        ("x\nCaused by: java.io.IOException: No space left on device\n\tat a.b", ServiceError, "is full"),
        ("java.io.FileNotFoundException: /h/x (Read-only file system)", ServiceError, "cannot be written"),
        ("java.io.FileNotFoundException: /h/x (Permission denied)", ServiceError, "cannot be written"),
        (
            "org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment.",
            ServiceError,
            "does not answer, or a partition has no leader",
        ),
        (
            "TopicAuthorizationException: Not authorized to access topics: [client-logs]",
            ServiceError,
            "may not read or write",
        ),
        (
            "PythonException: clienthealth.model.errors.StateError: the checkpoint has version 9 of the state\nx",
            StateError,
            "the checkpoint has version 9 of the state",
        ),
        (
            "AssertionError: There are [1] sources in the checkpoint offsets and now there are [2] sources",
            StateError,
            "written by another release, or is damaged",
        ),
        (
            "UnsupportedOperationException: maximum supported log version is v1, but encountered v2",
            StateError,
            "another release",
        ),
        (
            "[STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE] Provided key schema does not match existing state key schema.",
            StateError,
            "another release",
        ),
        (
            "[STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE] Provided value schema does not match existing state schema.",
            StateError,
            "another release",
        ),
        (
            "[STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA] Streaming stateful operator name does not match "
            "with the operator in state metadata.",
            StateError,
            "another release",
        ),
        (
            "[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log. Multiple streaming jobs detected for 7.\n"
            "Please make sure only one streaming job runs on a specific checkpoint location at a time. SQLSTATE: 40000",
            StateError,
            "another monitor works on the checkpoint in state/checkpoints: stop one of the two monitors",
        ),
        ("Failed to read log file file:/c/monitor/offsets/7. Incomplete log file", StateError, "or is damaged"),
        ("[CANNOT_LOAD_STATE_STORE] Caused by: java.io.IOException: No space left on device", ServiceError, "is full"),
        (
            "PythonException: Traceback…\nModuleNotFoundError: No module named 'clienthealth'",
            DependencyError,
            "an executor has no module 'clienthealth'",
        ),
        ("[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred during loading state.", StateError, "is damaged"),
        (
            "[STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY] Cannot restart streaming query with stateful "
            "operators because the state directory is empty or missing.",
            StateError,
            "is damaged",
        ),
        (
            "[STREAMING_CHECKPOINT_MISSING_METADATA_FILE] Checkpoint location file:/c/monitor is in an inconsistent "
            "state: the metadata file is missing",
            StateError,
            "is damaged",
        ),
    ],
)
def test_each_has_its_sentence(java_message: str, kind: type[Exception], sentence: str) -> None:
    error = explained(java_message, Settings())
    assert type(error) is kind
    assert sentence in str(error)
    assert "\n" not in str(error)


def test_an_unknown_failure_is_reported_without_its_stack() -> None:
    error = explained("first line\nsecond line\n\tat org.apache.spark.Somewhere(a.scala:1)", Settings())
    assert type(error) is ServiceError
    assert str(error) == "the streaming query failed: first line\nsecond line"
