"""Every verdict has exactly the fields that its status requires."""

from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clienthealth.measure.client_window import ClientWindow
from clienthealth.model.health_record import verdict_from_json, verdict_json
from clienthealth.model.readings import LogEvent, Thread, ThreadDump
from clienthealth.modes import Mode, modes
from tests.scenarios import _making as making
from tests.support.arbitrary import arbitrary_window


@pytest.mark.parametrize("mode", list(modes().values()), ids=lambda mode: mode.id)
@settings(max_examples=100, deadline=None)
@given(seed=st.integers(min_value=0, max_value=2**32))
def test_a_verdict_is_consistent(mode: Mode, seed: int) -> None:
    window = arbitrary_window(seed, sorted(mode.kinds))
    verdict = mode.judge(window, mode.thresholds)
    assert verdict.mode == mode.id
    assert (verdict.status == "unknown") == (verdict.reason is not None)
    unhealthy = verdict.status in ("suspected", "confirmed")
    assert unhealthy == (verdict.since_ms is not None)
    assert bool(verdict.evidence) == unhealthy or verdict.status == "unknown"
    assert {evidence.kind for evidence in verdict.evidence} <= set(mode.evidence)
    assert all(evidence.text and "\n" not in evidence.text for evidence in verdict.evidence)
    assert json.loads(json.dumps(verdict_json(verdict), allow_nan=False))
    assert verdict_from_json(json.loads(json.dumps(verdict_json(verdict)))).status == verdict.status


@pytest.mark.parametrize("mode", list(modes().values()), ids=lambda mode: mode.id)
def test_an_empty_window_is_unknown(mode: Mode) -> None:
    for kind in sorted(mode.kinds):
        assert mode.judge(making.window(kind), mode.thresholds).status == "unknown"
        assert mode.judge(making.window(kind, departed=5), mode.thresholds).status == "unknown"


@given(shift_ms=st.integers(min_value=0, max_value=10**12))
@settings(max_examples=20, deadline=None)
def test_the_time_of_day_does_not_matter(shift_ms: int) -> None:
    mode = modes()["producer-callback-deadlock"]
    window = making.window(
        readings=making.producer(making.stuck_at(500, 15), making.filling(200_000, 15, 32 * making.MIB)),
        dumps=[making.dump(20, making.network(making.GET))],
    )
    later = _shifted(window, shift_ms)
    assert mode.judge(later, mode.thresholds).status == "confirmed"
    onset = mode.judge(later, mode.thresholds).since_ms
    assert onset == making.at(20) + shift_ms


def _shifted(window: ClientWindow, by_ms: int) -> ClientWindow:
    return dataclasses.replace(
        window,
        start_ms=window.start_ms + by_ms,
        end_ms=window.end_ms + by_ms,
        readings=tuple(dataclasses.replace(r, ts_ms=r.ts_ms + by_ms) for r in window.readings),
        logs=tuple(dataclasses.replace(e, ts_ms=e.ts_ms + by_ms) for e in window.logs),
        dumps=tuple(dataclasses.replace(d, ts_ms=d.ts_ms + by_ms) for d in window.dumps),
    )


def test_events_of_unknown_signatures_and_empty_threads_do_not_matter() -> None:
    window = making.window(
        logs=[LogEvent(making.at(1), "no-such-signature", "")], dumps=[ThreadDump(making.at(2), (Thread("", "", ()),))]
    )
    for mode in modes().values():
        assert mode.judge(window, mode.thresholds).status in ("ok", "unknown")
