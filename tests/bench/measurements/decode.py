"""Measure in one process, without Spark, how many records can be decoded per second."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from clienthealth.model.readings import Source
from clienthealth.settings import Settings
from tests.bench import canonical, samples
from tests.bench.measurements import Scope
from tests.bench.publish import readings
from tests.bench.results import Figure, Result
from tests.bench.templates import Pattern

TITLE = "Speed of the decoder alone"
RECORDS, CLIENTS, PASSES = 20_000, 5_000, 5
TURNS, TURN_RECORDS = 40, 100
FORMATS: Mapping[str, Callable[[], Pattern]] = {
    "canonical": canonical.producer,
    "librdkafka": samples.librdkafka,
    "Telegraf": samples.telegraf,
    "Jolokia": samples.jolokia,
    "OTLP JSON": samples.otlp,
    "OTLP protobuf": samples.otlp_protobuf,
}


def measure(scope: Scope) -> Result:
    rates = {name: decode_rate(name, quickly=name == "canonical") for name in FORMATS}
    figures = [
        *(Figure(f"decoder alone, {name}: records decoded", rate, "/s") for name, rate in rates.items()),
        Figure("decoder alone: speed of OTLP protobuf relative to OTLP JSON", multiple(), "×", 2.0, "least"),
    ]
    how = (
        f"One process decodes {RECORDS:,} records in memory, without Spark. The figure is from the fastest of {PASSES} "
        "passes."
    )
    return Result(figures, how)


def multiple() -> float:
    from clienthealth.model.telemetry import RawRecord
    from clienthealth.read.decode import decode_metrics

    settings, now_ms = Settings(), round(time.time() * 1000)
    least: dict[str, float] = {}
    for _ in range(TURNS):
        for name in ("OTLP JSON", "OTLP protobuf"):
            records = [
                RawRecord(value, Source("client-metrics", 0, 0), now_ms, key)
                for key, value in readings(FORMATS[name](), TURN_RECORDS, TURN_RECORDS)
            ]
            began = time.process_time()
            decoded = sum(len(decode_metrics(record, settings, now_ms).snapshots) for record in records)
            least[name] = min(time.process_time() - began, least.get(name, float("inf")))
            assert decoded == 2 * TURN_RECORDS, f"{decoded} snapshots of {name}"
    return least["OTLP JSON"] / least["OTLP protobuf"]


def decode_rate(name: str, quickly: bool = False) -> float:
    from clienthealth.model.telemetry import RawRecord
    from clienthealth.read.decode import decode_metrics, fast, latest_ms

    settings, now_ms = Settings(), round(time.time() * 1000)
    latest = latest_ms(settings, now_ms)
    records = list(readings(FORMATS[name](), RECORDS, CLIENTS))

    def decode(key: bytes, value: bytes) -> bool:
        if quickly:
            return fast(value, False, latest) is not None
        raw = RawRecord(value, Source("client-metrics", 0, 0), now_ms, key)
        return bool(decode_metrics(raw, settings, now_ms).snapshots)

    best = 0.0
    for _ in range(PASSES):
        began = time.perf_counter()
        decoded = sum(decode(key, value) for key, value in records)
        best = max(best, RECORDS / (time.perf_counter() - began))
        assert decoded == RECORDS, f"{RECORDS - decoded} records of {name} could not be decoded"
    print(f"  {name}: {best:,.0f} records/s{' by the fast path' if quickly else ''}", flush=True)
    return best
