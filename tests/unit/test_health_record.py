"""A health record stays unchanged when it is written and then read. A record of a newer schema is rejected."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from clienthealth.model.clients import Client
from clienthealth.model.errors import RecordError
from clienthealth.model.health_record import SCHEMA, Written, decode, encoded, seen_json, verdicts_json
from clienthealth.model.readings import Source
from clienthealth.model.verdicts import Evidence, Seen, Verdict
from tests.support import left_by_release as left

CLIENT = Client("orders", "web-7", "web-7:1", "order-producer", "producer", version="3.9.1")
STUCK = Verdict(
    "producer-callback-deadlock",
    "confirmed",
    40_000,
    {"cause": "get"},
    (Evidence("metric", 90_000, "select-total stayed", Source("client-metrics", 2, 88_123)),),
)


def written(departed: bool = False, config: Mapping[str, str] = {}) -> bytes:
    return Written(
        window_start=60_000,
        window_end=120_000,
        client=encoded(CLIENT),
        samples=6,
        indicators={"buffer_used_ratio": {"last": 0.93}},
        verdicts=verdicts_json([STUCK, Verdict("delivery-stalled", "ok")]),
        worst="confirmed",
        last_seen=118_000,
        departed=departed,
        config=config,
    ).encode()


def test_what_is_written_is_read() -> None:
    record = decode(written())
    assert (record.client, record.verdicts) == (CLIENT, (STUCK, Verdict("delivery-stalled", "ok")))
    assert (record.window_start, record.window_end, record.seen_ms) == (60_000, 120_000, 118_000)
    assert (record.samples, record.worst, record.departed) == (6, "confirmed", False)
    assert record.value("buffer_used_ratio", "last") == 0.93
    assert decode(written(departed=True)).departed
    assert decode(written()).config == {}
    assert decode(written(config={"request.timeout.ms": "30000"})).config == {"request.timeout.ms": "30000"}


def test_trouble_beside_the_verdicts_is_read_and_may_be_missing() -> None:
    row, seen = json.loads(written()), Seen("tls", 12, 5, 9, "SSL handshake failed", Source("client-logs", 1, 7), True)
    assert "also_seen" not in row and decode(written()).also_seen == ()
    assert decode(json.dumps({**row, "also_seen": [seen_json(seen)]}).encode()).also_seen == (seen,)
    with pytest.raises(RecordError):
        decode(json.dumps({**row, "also_seen": [{"what": 5}]}).encode())


def test_options_that_are_no_texts_are_none() -> None:
    row = json.loads(written())
    assert decode(
        json.dumps({**row, "config": {"request.timeout.ms": 5, "max.poll.interval.ms": "6"}}).encode()
    ).config == {"max.poll.interval.ms": "6"}
    with pytest.raises(RecordError, match="config"):
        decode(json.dumps({**row, "config": ["request.timeout.ms"]}).encode())


def test_the_fields_are_those_that_others_read() -> None:
    names = ["schema", "window_start", "window_end", "client", "samples", "indicators", "verdicts", "worst"]
    assert list(json.loads(written())) == [*names, "last_seen"]
    assert json.loads(written())["schema"] == SCHEMA == 1
    assert json.loads(written(departed=True))["departed"] is True


@pytest.mark.parametrize("schema", [2, "1", 1.5, None, [1]])
def test_a_schema_that_is_not_known_is_refused(schema: object) -> None:
    with pytest.raises(RecordError, match=r"^schema .* is not known: this program reads up to schema 1$"):
        decode(json.dumps({**json.loads(written()), "schema": schema}).encode())


def test_a_record_without_a_schema_is_one_of_the_first() -> None:
    row = json.loads(written())
    del row["schema"]
    assert decode(json.dumps(row).encode()) == decode(written())


def test_states_that_the_release_before_wrote_are_read(tmp_path: Path) -> None:
    left.unpacked(tmp_path)
    records = json.loads((tmp_path / left.HEALTH).read_text())
    worst = {record.client.host: record.worst for record in (decode(json.dumps(r).encode()) for r in records.values())}
    assert worst == dict(zip(left.HOSTS, ("confirmed", "ok"), strict=True))
