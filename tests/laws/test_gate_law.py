"""Check that the gate hides no fault. The gate skips windows with healthy metrics."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clienthealth.measure.client_window import ClientWindow
from clienthealth.model.clients import Kind
from clienthealth.modes import LiveMode, modes
from clienthealth.modes.producer_callback_deadlock import rules
from clienthealth.monitor.window_verdicts import gate, verdict
from clienthealth.settings.fields import keys
from tests.scenarios import _making as making
from tests.scenarios import scenarios
from tests.support.arbitrary import arbitrary_window
from tests.support.recorded import clients, folders
from tests.support.stacked import stacked

LIVE = [mode for mode in modes().values() if isinstance(mode, LiveMode)]
every_live_mode = pytest.mark.parametrize("mode", LIVE, ids=lambda mode: mode.id)
KINDS: tuple[Kind, ...] = ("producer", "consumer", "legacy-consumer")
SHARES = (0.0, 0.02, 0.1, 0.3, 0.5, 1.0, 1.0, 2.0, 10.0)


def metrics_only(window: ClientWindow) -> ClientWindow:
    """Return the window without log lines and dumps, because the gate never skips a window that has them."""
    return dataclasses.replace(window, logs=(), dumps=(), departed_ms=None)


@cache
def recorded(every_ms: int = 0) -> tuple[ClientWindow, ...]:
    recorded_windows = []
    for folder in folders():
        for client in clients(folder, every_ms):
            recorded_windows += [metrics_only(window) for window in client.windows]
    return tuple(recorded_windows)


@cache
def made() -> tuple[ClientWindow, ...]:
    return tuple(metrics_only(scenario.window) for cases in scenarios().values() for scenario in cases)


@cache
def arbitrary(seed: int) -> tuple[ClientWindow, ...]:
    return tuple(metrics_only(arbitrary_window(1000 * seed + n, KINDS)) for n in range(40))


def windows_by_kind(windows: Sequence[ClientWindow], mode: LiveMode[Any]) -> list[list[ClientWindow]]:
    by_kind = [[window for window in windows if window.client.kind == kind] for kind in sorted(mode.kinds)]
    return [same_kind for same_kind in by_kind if same_kind]


def assert_law(mode: LiveMode[Any], windows: Sequence[ClientWindow]) -> None:
    for same_kind in windows_by_kind(windows, mode):
        suspected, reasons = gate(mode, stacked(same_kind))
        for window, suspect, reason in zip(same_kind, suspected.tolist(), reasons, strict=True):
            if not suspect:
                judged = verdict(mode, window)
                assert (judged.status, judged.reason) == ("unknown" if reason else "ok", reason or None), window


@every_live_mode
@pytest.mark.parametrize("every_ms", [0, 10_000])
def test_recorded_and_made_windows(mode: LiveMode[Any], every_ms: int) -> None:
    assert_law(mode, [*recorded(every_ms), *made()])


@every_live_mode
def test_lines_that_a_mode_does_not_read_change_no_verdict(mode: LiveMode[Any]) -> None:
    read = frozenset().union(*(meaning.ids for meaning in mode.reads))
    scenes = [scenario.window for cases in scenarios().values() for scenario in cases]
    recorded = [window for folder in folders() for client in clients(folder, 0) for window in client.windows]
    windows = []
    for window in [*recorded[::4], *scenes, *(arbitrary_window(n, KINDS) for n in range(400))]:
        others = tuple(event for event in window.logs if event.signature not in read)
        if others and window.client.kind in mode.kinds:
            windows.append(dataclasses.replace(metrics_only(window), logs=others))
    assert len(windows) > 50
    assert_law(mode, windows)


@every_live_mode
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_whatever_the_thresholds_are(mode: LiveMode[Any], data: st.DataObject) -> None:
    changes: dict[str, float] = {}
    for name, key in keys(type(mode.thresholds)).items():
        wanted = key.default * data.draw(st.sampled_from(SHARES), name)
        low, high = key.at_least, key.at_most
        least = changes[low] if isinstance(low, str) else low
        assert least is not None and not isinstance(high, str)
        changes[name] = type(key.default)(max(least, wanted if high is None else min(wanted, high)))
    dice = random.Random(data.draw(st.integers(0, 2**32), "windows"))
    windows = [*dice.sample(recorded(10_000), 25), *dice.sample(made(), 10), *arbitrary(dice.randrange(50))]
    assert_law(mode.with_thresholds(changes), windows)


def test_a_stretch_between_two_samples_is_enough_if_the_thresholds_permit_it() -> None:
    mode = rules.MODE
    sharper = mode.with_thresholds({"min_fills": 1, "suspect_frozen_seconds": 8.0})
    readings = making.producer(making.stuck_at(500, 45), making.filling(200_000, 40, 32 * making.MIB), until=50)
    last = readings[-1]
    stuck = dataclasses.replace(
        last, ts_ms=last.ts_ms + 9000, metrics={**last.metrics, "select-total": 5000.0, "buffer-available-bytes": 1e6}
    )
    before = dataclasses.replace(last, metrics={**last.metrics, "select-total": 5000.0})
    window = making.window(readings=[*readings[:-1], before, stuck])
    assert gate(sharper, window.table)[0].tolist() == [True]
    assert verdict(sharper, window).status == "suspected"
    assert gate(mode, window.table)[0].tolist() == [False]


def test_a_run_of_one_client_is_none_of_the_next() -> None:
    mode = rules.MODE
    stuck = making.window(readings=making.producer(making.still(7.0), making.filling(200_000, 0, 32 * making.MIB)))
    others = [dataclasses.replace(stuck, readings=stuck.readings[:n]) for n in (1, 0)]
    blind = dataclasses.replace(
        stuck, readings=tuple(dataclasses.replace(r, metrics={"waiting-threads": 1.0}) for r in stuck.readings)
    )
    together = [
        dataclasses.replace(w, client=making.client("producer", str(n)))
        for n, w in enumerate((stuck, *others, blind, stuck))
    ]
    assert gate(mode, stacked(together))[0].tolist() == [True, False, False, False, True]


@every_live_mode
def test_a_window_is_seen_alike_alone_and_among_others(mode: LiveMode[Any]) -> None:
    windows = [*recorded(10_000)[::3], *made(), *arbitrary(0), *arbitrary(1)]
    for same_kind in windows_by_kind(windows, mode):
        together = stacked(same_kind)
        suspected, reasons = gate(mode, together)
        alone = [gate(mode, window.table) for window in same_kind]
        assert suspected.tolist() == [bool(gated[0]) for gated, _ in alone]
        assert reasons == [reason for _, (reason,) in alone]
        chosen = np.arange(len(same_kind))[::-2]
        assert gate(mode, together.at(chosen))[0].tolist() == suspected[chosen].tolist()


def test_some_faults_are_seen_by_metrics() -> None:
    passed = {
        mode.id: sum(gate(mode, stacked(same_kind))[0].sum() for same_kind in windows_by_kind(made(), mode))
        for mode in LIVE
    }
    assert min(passed.values()) >= 1


def test_healthy_clients_do_not_reach_the_judges() -> None:
    healthy = [w for w in (*recorded(), *recorded(10_000)) if w.client.service in ("c1_healthy", "healthy-4.1")]
    assert len(healthy) > 20
    for mode in LIVE:
        for same_kind in windows_by_kind(healthy, mode):
            assert gate(mode, stacked(same_kind))[0].sum() == 0, mode.id
