"""Whatever a client reports over its whole life: all others are judged as if it had never been there.

From raw records through the real decoder, packing, steps, the real rule of saving and loading, to what is published and
what the exporter shows of it. `make fuzz` goes on with the same (target `lives`).
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from clienthealth.modes._evidence import Fact, conclude
from tests.support.hostile import BEGIN, lived, repeated
from tests.support.raw_records import Raw
from tests.support.streamed import Streamed
from tests.unit.test_pushed import push
from tests.unit.test_wordings import EXAMPLES

LINES = [line for examples in EXAMPLES.values() for line, _ in examples]


@cache
def undisturbed() -> list[list[bytes]]:
    return lived(None).published("good")


@pytest.mark.parametrize("seed", range(12))
def test_nothing_that_a_client_reports_stops_or_moves_the_others(seed: int) -> None:
    monitor = lived(seed, LINES, push(principal="User:evil"))
    assert monitor.published("good") == undisturbed()
    # Nor is it for the isolation to mend what a number does.
    assert "step-failed" not in monitor.reasons
    assert monitor.reasons & {"impossible-value", "missing-timestamp", "future-timestamp"}


EVIL = {"service": "evil", "host": "e", "instance": "e:1", "client_id": "e", "kind": "producer"}


def snapshot(**fields: Any) -> bytes:
    return json.dumps({"ts": 1000 * BEGIN, "client": EVIL, "metrics": {"select-total": 7}, **fields}).encode()


@pytest.mark.parametrize("number", [1e30, 1e308, 2.0**64, 2**63])
def test_one_absurd_number_in_a_buffer_stops_nobody(number: float) -> None:
    buffer = {"buffer-total-bytes": number, "buffer-available-bytes": 5.0, "record-send-total": 3.0}
    monitor = repeated(snapshot(metrics=buffer))
    assert monitor.reasons == {"impossible-value"}
    assert monitor.published("evil")


@pytest.mark.parametrize("number", [1e30, 2**63, 2**70])
def test_absurd_offsets_of_a_group_stop_nobody(number: float) -> None:
    part = {"topic": "t", "partition": 0, "metrics": {"committed-offset": number, "end-offset": 2 * number}}
    monitor = repeated(snapshot(client=EVIL | {"kind": "group"}, topics=[part]))
    assert monitor.reasons == {"impossible-value"}


def test_no_fault_begins_before_kafka_did() -> None:
    """A client can claim to wait for thousands of years; no history holds that."""
    facts = [Fact("metric", 1000 * BEGIN - 10**15, 1000 * BEGIN, "it waits")]
    assert conclude("consumer-stalled", facts).since_ms == 1_262_304_000_000


def test_a_process_that_names_no_instance_is_shown() -> None:
    """The exporter had taken its records for unreadable."""
    monitor = Streamed()
    for second in range(BEGIN, BEGIN + 60, 10):
        record = snapshot(ts=1000 * second, client={"service": "evil", "client_id": "e", "kind": "producer"})
        monitor.batch(second, [Raw("", record)])
    monitor.shown()
