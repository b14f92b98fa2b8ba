"""The monitor keeps four thread dumps of a process, even if they are older than its window."""

from __future__ import annotations

from clienthealth.measure.packed import LogEntry
from clienthealth.model.readings import LogEvent, Thread, ThreadDump
from clienthealth.monitor import process_log
from clienthealth.monitor.state import BucketState
from clienthealth.settings import MonitorSettings

SETTINGS = MonitorSettings()
T0 = 1_795_200_000_000
POLLS = ("sun.nio.ch.EPoll.wait", "org.apache.kafka.clients.consumer.KafkaConsumer.poll", "com.example.Worker.run")
HANGS = ("jdk.internal.misc.Unsafe.park", "com.example.Warehouse.reserve", "com.example.Worker.run")


def entry(seconds: float, *threads: Thread) -> LogEntry:
    return LogEntry("shop", "web-1", None, dump=ThreadDump(T0 + int(1000 * seconds), threads))


def names(state: BucketState) -> list[list[str]]:
    return [[thread.name for thread in kept.dump.threads] for kept in state.log_entries if kept.dump is not None]


def polling(at: float) -> LogEntry:
    return entry(at, Thread("orders-0", "RUNNABLE", POLLS), Thread("http-1", "WAITING", HANGS))


def hanging(at: float) -> LogEntry:
    return entry(at, Thread("orders-0", "WAITING", HANGS), Thread("http-1", "WAITING", HANGS))


def test_of_threads_that_touch_no_client_those_stay_that_polled_before_in_whatever_batch() -> None:
    state = BucketState(time_ms=T0)
    process_log.take(state, [hanging(0), polling(5), hanging(10)], SETTINGS)
    assert names(state) == [[], ["orders-0"], ["orders-0"]]
    process_log.take(state, [hanging(20)], SETTINGS)
    assert names(state)[-1] == ["orders-0"]


def test_a_poller_is_known_when_the_dump_that_showed_it_polling_is_gone() -> None:
    state = BucketState(time_ms=T0)
    process_log.take(state, [polling(0), *(hanging(10 * n) for n in range(1, 6))], SETTINGS)
    state.time_ms = T0 + 400_000
    process_log.take(state, [hanging(390)], SETTINGS)
    process_log.evict(state, SETTINGS, 60_000, set())
    assert [kept.ts_ms - T0 for kept in state.log_entries] == [20_000, 30_000, 40_000, 50_000, 390_000]
    process_log.take(state, [hanging(400)], SETTINGS)
    assert names(state) == [["orders-0"]] * 6


def test_the_newest_dumps_outlive_their_window_while_their_process_reports() -> None:
    state = BucketState(time_ms=T0 + 400_000)
    state.log_entries = [polling(0), LogEntry("shop", "web-1", None, event=LogEvent(T0 + 399_000, "x", "x"))]
    process_log.evict(state, SETTINGS, 60_000, set())
    assert names(state) == [["orders-0", "http-1"]]
    state.time_ms = T0 + 400_000 + process_log.LIFECYCLE_MS + 100_000
    process_log.evict(state, SETTINGS, 60_000, set())
    assert state.log_entries == []
