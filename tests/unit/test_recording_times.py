"""A replay moves the times in records of every format to the present."""

from __future__ import annotations

import pytest

from deploy.demo.replay import moved, time_of
from tests.support.golden_logs import GOLDEN as LOGS
from tests.support.golden_metrics import AT, GOLDEN
from tests.support.raw_records import sample

DAY_MS = 86_400_000
BARE = {"kafka_python_consumer_metrics.json", "kafka_python_producer_metrics.json"}

#: For each case: a record, its time (epoch ms), and the same record with its times moved by one day and 1.5 s.
TIMES: dict[str, tuple[str, int, str]] = {
    "canonical": (
        '{"ts": 1795200030123, "client": {}, "metrics": {"x": 1795200030}}',
        1795200030123,
        '{"ts": 1795286431623, "client": {}, "metrics": {"x": 1795286432}}',
    ),
    "a monotonic clock stays": (
        '{"ts": 8812033455123, "time": 1795200030, "age": 600123455}',
        1795200030000,
        '{"ts": 8812033455123, "time": 1795286432, "age": 600123455}',
    ),
    "nanoseconds in text": (
        '{"startTimeUnixNano": "1795200000000000000", "timeUnixNano":"1795200030000000001"}',
        1795200030000,
        '{"startTimeUnixNano": "1795286401500000000", "timeUnixNano":"1795286431500000001"}',
    ),
    "ISO 8601": (
        '{"@timestamp":"2026-11-20T18:40:30.123Z"}',
        1795200030123,
        '{"@timestamp":"2026-11-21T18:40:31.623Z"}',
    ),
    "a zone and nanoseconds": (
        '{"timestamp":"2026-11-20T23:59:59.123456789+01:00"}',
        1795215599123,
        '{"timestamp":"2026-11-22T00:00:00.623456789+01:00"}',
    ),
    "seconds with a fraction": ('{"@timestamp": 1795200030.25}', 1795200030250, '{"@timestamp": 1795286431.75}'),
    "line protocol": (
        'kafka,host=h used=7.5,state="ok, up" 1795200030123000000\n',
        1795200030123,
        'kafka,host=h used=7.5,state="ok, up" 1795286431623000000\n',
    ),
    "Prometheus's text": (
        '# TYPE up gauge\nup 1 1795200030123\nlag{topic="a b"} 3 1795200030123\n',
        1795200030123,
        '# TYPE up gauge\nup 1 1795286431623\nlag{topic="a b"} 3 1795286431623\n',
    ),
    "a line": ("2026-11-20 18:40:30,123 INFO x", 1795200030123, "2026-11-21 18:40:31,623 INFO x"),
    "a line in brackets": ("[2026-11-20 18:40:30] x", 1795200030000, "[2026-11-21 18:40:32] x"),
    "librdkafka's line": ("%4|1795200030.123|MAXPOLL|x", 1795200030123, "%4|1795286431.623|MAXPOLL|x"),
    "another day stays": (
        '{"ts": 1795200030123, "started": "2026-01-01T00:00:00Z", "size": 1073741824}',
        1795200030123,
        '{"ts": 1795286431623, "started": "2026-01-01T00:00:00Z", "size": 1073741824}',
    ),
}


@pytest.mark.parametrize("name", TIMES)
def test_a_time_is_found_and_moved_in_its_own_notation(name: str) -> None:
    value, time, later = TIMES[name]
    assert time_of(value.encode()) == time
    assert moved(value.encode(), DAY_MS + 1500).decode() == later


@pytest.mark.parametrize(
    "value", [b"", b"no time", b"{}", b'{"ts": true}', b'{"time": "2026-13-40T25:00:00Z"}', b"\xff\x00"]
)
def test_a_record_without_a_time_stays_as_it_is(value: bytes) -> None:
    assert time_of(value) is None
    assert moved(value, 1500) == value


@pytest.mark.parametrize("name", sorted(name for name in {*GOLDEN, *LOGS} - BARE if not name.endswith(".bin")))
def test_the_time_of_each_sample_is_found(name: str) -> None:
    for record in sample(name):
        assert record.value is not None
        own_time = time_of(record.value)
        assert own_time is not None, "OWN of deploy/demo/replay.py lacks the name of the field with the record's time"
        after_ms = own_time - AT
        assert 0 <= after_ms <= (20_000 if name in LOGS else 1000), "samples are of 2026-11-20 18:40:30 UTC"
        assert time_of(moved(record.value, DAY_MS)) == own_time + DAY_MS
