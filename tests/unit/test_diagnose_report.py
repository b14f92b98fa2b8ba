"""What `kafka-health diagnose` prints, for people in front of 80 columns."""

from __future__ import annotations

from collections import Counter

from clienthealth.cli.diagnose import _report
from clienthealth.diagnose import Diagnosis
from clienthealth.records import Client, Evidence, Verdict


def test_the_report_fits_80_columns_and_the_failure_comes_first() -> None:
    words = "and so on " * 20
    verdicts = [
        Verdict("producer-not-closed", "unknown", reason=words),
        Verdict("producer-callback-deadlock", "confirmed", 1_000, {"cause": words}, (Evidence("log", 1_000, words),)),
    ]
    client = Client("orders", "h", "h:1", "order-producer", "producer", "java", "3.9.1")
    lines = _report(Diagnosis([(client, verdicts)], Counter({"plain_text": 3}), Counter({"empty": 1}))).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[:5] == [
        "Recognised: plain_text 3.",
        "",
        "Not readable: empty 1.",
        "",
        "orders  order-producer  producer  java 3.9.1",
    ]
    assert lines[5] == "  CONFIRMED  producer-callback-deadlock since 1970-01-01 00:00:01 UTC"
    assert any(line.startswith("  unknown    producer-not-closed: and so on") for line in lines)
