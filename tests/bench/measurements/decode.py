"""Decoding alone, in one process, without Spark: what a record costs before anything is judged."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from clienthealth.records import Source
from clienthealth.settings import Settings
from tests.bench import canonical, samples
from tests.bench.measurements import Scope
from tests.bench.publish import readings
from tests.bench.results import Figure, Result, Table
from tests.bench.templates import Template

TITLE = "Decoding alone"
RECORDS, CLIENTS, PASSES = 20_000, 5_000, 5
FORMATS: Mapping[str, Callable[[], Template]] = {
    "canonical": canonical.producer,
    "librdkafka": samples.librdkafka,
    "Telegraf": samples.telegraf,
    "Jolokia": samples.jolokia,
    "OTLP JSON": samples.otlp,
}


def measure(scope: Scope) -> Result:
    """Each format, and canonical snapshots by the fast path too."""
    found = {f"{name}, carefully": decode_rate(name) for name in FORMATS}
    found["canonical, fast"] = decode_rate("canonical", quickly=True)
    figures = [
        Figure("decode alone, canonical, records/s", found["canonical, fast"], "/s"),
        *(
            Figure(f"decode alone, {name}, records/s", found[f"{name}, carefully"], "/s")
            for name in FORMATS
            if name != "canonical"
        ),
    ]
    rows = [[name, f"{rate:,.0f}", f"{1e6 / rate:.1f}"] for name, rate in found.items()]
    how = f"{RECORDS:,} records in memory, one process, the fastest of {PASSES} passes."
    return Result(figures, how, [Table(["", "records/s", "µs/record"], rows)])


def decode_rate(name: str, quickly: bool = False) -> float:
    """Records of a format that one process decodes in a second; `quickly`: by the path for faultless snapshots."""
    from clienthealth.decode import decode_metrics, fast, latest_ms
    from clienthealth.formats import RawRecord

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
