"""`diagnose` takes a time from the text, or from the file's date if the text has no time."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from clienthealth.diagnose.examine import examine
from clienthealth.diagnose.outcome import Diagnosis
from clienthealth.diagnose.story import stories
from clienthealth.model.verdicts import Verdict
from clienthealth.read.logs.times import Times, has_zone, time_ms
from clienthealth.settings import Settings
from tests.support.recorded import RECORDINGS

DEADLOCK, STALLED = "producer-callback-deadlock", "consumer-stalled"
LAST_POLL = "consumer-metrics/last-poll-seconds-ago{client-id=order-billing}"
DUMPS = RECORDINGS / "evidence" / "2_deadlock_client39"
WORDS = (
    "|MAXPOLL|rdkafka#consumer-1| [thrd:main]: Application maximum poll interval (300000ms) exceeded by 255ms (adjust "
    "max.poll.interval.ms for long-running message processing): leaving group"
)
LONG_AGO = 1_745_143_200  # LONG_AGO is 2025-04-20, 578 days before the dumps in DUMPS


def verdict(diagnosis: Diagnosis, mode: str) -> Verdict:
    (found,) = (v for _, verdicts in diagnosis.clients for v in verdicts if v.mode == mode)
    return found


@pytest.mark.parametrize(
    ("line", "since"),
    [
        # The log line says that poll() was not called for 300 s.
        (f"%4|1795208940.123{WORDS}", "2026-11-20 21:04:00"),
        (f"7|1795208940.123{WORDS}", "2026-11-20 21:04:00"),
        (f"[consumer] **%4|1795208940.123{WORDS}**", "2026-11-20 21:04:00"),
        (f"Line 2499: %4|1795208940.123{WORDS}", "2026-11-20 21:04:00"),
        (f"Nov 20, 2026 @ 21:09:00.123 %4|1795208940.123{WORDS}", "2026-11-20 21:04:00"),
        (f"shop/billing-7 said at 2026-11-20T21:09:00.123Z: {WORDS[1:]}", "2026-11-20 21:04:00"),
        (f"Dear team, we see {WORDS[1:]}", "time unknown"),
    ],
)
def test_a_time_stands_anywhere_before_the_clients_words(line: str, since: str, tmp_path: Path) -> None:
    log = tmp_path / "consumer.log"
    log.write_text(f"{line}\n")
    os.utime(log, (LONG_AGO, LONG_AGO))
    diagnosis = examine([log], Settings())
    (story,) = stories(diagnosis)
    (finding,) = (one for one in story.findings if one.verdict.mode == STALLED)
    assert finding.since.removesuffix(" UTC") == since


@pytest.mark.parametrize(
    "written",
    [
        *(f"2026-11-20 21:09:00{zone}" for zone in ("", "Z", " UTC", " GMT", "+00:00", " +9900", " Nowhere/Nowhere")),
        *(f"2026-11-20 23:09:00{zone}" for zone in ("+0200", " +02:00", " GMT+02:00", "+02", " CEST", " EET")),
        *(f"2026-11-20 16:39:00{zone}" for zone in ("-0430", " -04:30", " UTC-04:30")),
        "2026-11-20 22:09:00 CET",
        "2026-11-20 22:09:00 Europe/Berlin",
        "2026-11-21 00:09:00 EEST",
        "2026-11-20 16:09:00 EST",
        "2026-11-20 17:09:00 EDT",
        "2026-11-20 15:09:00 CST",
        "2026-11-20 16:09:00 CDT",
        "2026-11-20 14:09:00 MST",
        "2026-11-20 15:09:00 MDT",
        "2026-11-20 13:09:00 PST",
        "2026-11-20 14:09:00 PDT",
        "Fri Nov 20 23:09:00 GMT+02:00 2026",
        "Fri Nov 20 22:09:00 CET 2026",
        "20261120-163900-0430",
        "20261120T210900Z",
    ],
)
def test_a_time_is_of_the_zone_that_it_names(written: str) -> None:
    stamp = Times.all().stamp(f"{written} app started".encode())
    assert stamp is not None and stamp.ts_ms == 1_795_208_940_000  # 2026-11-20 21:09:00 UTC


@pytest.mark.parametrize(
    ("written", "zoned"),
    [
        ("2026-11-20T23:09:00+02", True),
        ("2026/11/20 23:9 UTC+02:00", True),
        ("20261120T230900.000+0200", True),
        ("20261120T210900Z", True),
        ("20261120-210900", False),
        ("2026-11-20 21:09:00,000", False),
        ("1795208940", True),
    ],
)
def test_the_field_of_a_record_is_read_as_a_time_in_a_line_is(written: str, zoned: bool) -> None:
    assert (time_ms(written), has_zone(written)) == (1_795_208_940_000, zoned)


def test_the_date_of_a_file_is_neither_an_onset_nor_a_distance(tmp_path: Path) -> None:
    first, second = (DUMPS / name for name in ("jstack-during1-210314.txt", "jstack-during3-210334.txt"))
    (tmp_path / "jstack-1.txt").write_text(first.read_text())
    undated = tmp_path / "jstack-2.txt"
    undated.write_text(second.read_text().partition("\n")[2])
    os.utime(undated, (LONG_AGO, LONG_AGO))
    diagnosis = examine([tmp_path], Settings())
    found = verdict(diagnosis, DEADLOCK)
    assert found.status == "confirmed" and found.since_ms == 1_795_208_594_000  # 21:03:14 UTC, from the first dump
    report = "\n".join(fact.text for _, verdicts in diagnosis.clients for v in verdicts for fact in v.evidence)
    assert " d before" not in report and "days" not in report


def test_no_fault_began_before_its_process_was_started(tmp_path: Path) -> None:
    thrown_out = "[Consumer clientId=c, groupId=g] consumer poll timeout has expired. This means the time between"
    started = (
        "INFO  [main] o.a.k.clients.consumer.ConsumerConfig - ConsumerConfig values: \n\tclient.id = c\n\tgroup.id = g"
    )
    entries = f"2026-11-20 21:04:00,000 {started}\n2026-11-20 21:04:20,000 WARN  [hb] o.a.k.c.c.i.C - {thrown_out}\n"
    (tmp_path / "app.log").write_text(entries)
    found = verdict(examine([tmp_path], Settings()), STALLED)
    assert found.since_ms == 1_795_208_640_000


@pytest.mark.parametrize(("away", "status"), [(5, "ok"), (25, "unknown")])
def test_metrics_that_end_without_polls_prove_no_health(away: int, status: str, tmp_path: Path) -> None:
    whole = gzip.decompress((RECORDINGS / "consumer-stalled-3.9" / "metrics.jsonl.gz").read_bytes()).splitlines()
    polled = [json.loads(line)["metrics"].get(LAST_POLL, 0) for line in whole]
    end = next(number for number, seconds in enumerate(polled) if seconds >= away)
    metrics = tmp_path / "metrics.jsonl"
    metrics.write_bytes(b"\n".join([*whole[: end + 1], b""]))
    diagnosis = examine([metrics], Settings())
    for mode in (STALLED, "consumer-shutdown-loop", "cross-topic-blocking"):
        found = verdict(diagnosis, mode)
        assert found.status == status
        assert (f"the last known poll() was {away} s before" in (found.reason or "")) == (status != "ok")


@pytest.mark.parametrize(("ahead", "stated"), [(7200, True), (7200, False), (0, True)])
def test_a_dump_of_another_zone_is_taken_at_the_moment_that_its_file_was_written(
    ahead: int, stated: bool, tmp_path: Path
) -> None:
    dumped = [("jstack-during1-210314.txt", 1_795_208_594), ("jstack-during3-210334.txt", 1_795_208_614)]
    for name, moment in dumped:
        lines = (DUMPS / name).read_text().splitlines()
        lines[0] = f"{datetime.fromtimestamp(moment + ahead, UTC):%Y-%m-%d %H:%M:%S}"
        (tmp_path / name).write_text("\n".join(lines))
        written = moment + 2 if stated else LONG_AGO
        os.utime(tmp_path / name, (written, written))
    diagnosis = examine([tmp_path], Settings())
    first, second = (attached.start_ms for attached in diagnosis.inputs)
    seen = [1000 * (moment + (0 if stated else ahead)) for _, moment in dumped]
    assert [first, second] == seen
    evidence = verdict(diagnosis, DEADLOCK).evidence
    assert {fact.ts_ms for fact in evidence} <= set(seen)


def test_a_sentence_above_a_log_has_the_time_of_the_first_line_below(tmp_path: Path) -> None:
    above = "Our Kafka producer cannot send: Topic orders not present in metadata after 60000 ms. Why?\n\n```\n"
    line = "2026-11-20 10:05:00,000 ERROR [main] shop.Worker - send failed: org.apache.kafka.common.errors."
    (tmp_path / "post.txt").write_text(
        f"{above}{line}TimeoutException: Topic orders not present in metadata after 60000 ms.\n"
    )
    found = examine([tmp_path], Settings())
    assert found.inputs[0].timed
    assert verdict(found, "send-blocked-on-metadata").since_ms == 1_795_169_040_000  # 10:05:00 minus the wait of 60 s


def test_a_date_without_a_year_is_not_in_the_future() -> None:
    tomorrow, later = (datetime.now(UTC) + timedelta(days=days) for days in (1, 30))
    for written, ago in ((tomorrow, 0), (later, 1)):
        stamp = Times.all().stamp(written.strftime("%b %d 12:00:00 host app: x").encode())
        assert stamp is not None and stamp.ts_ms is not None
        assert datetime.fromtimestamp(stamp.ts_ms / 1000, UTC).year == written.year - ago


@pytest.mark.parametrize(
    ("lines", "days"),
    [
        (("Mar  5", "Mar  7", "Mar 10", "Jun 30"), ("2026-03-05", "2026-03-07", "2026-03-10", "2026-06-30")),
        (("Dec 30", "Jan  2", "Jan  1"), ("2025-12-30", "2026-01-02", "2026-01-01")),
    ],
)
def test_a_pause_of_days_keeps_the_year(lines: Sequence[str], days: Sequence[str]) -> None:
    times = Times.learned([b"Mar  5 10:00:00 host app[1]: x"], 1_783_000_000_000)  # 2026-07-02
    read = [times.stamp(f"{day} 10:00:00 host app[1]: x".encode()) for day in lines]
    assert [f"{datetime.fromtimestamp((one.ts_ms or 0) / 1000, UTC):%F}" for one in read if one] == [*days]
