"""The state of a bucket as bytes: whole, bounded, and read by programs that know other metrics."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from clienthealth.errors import StateError
from clienthealth.model.metrics import CLIENT_METRICS, TOPIC_METRICS
from clienthealth.model.telemetry import Identity, Snapshot, TopicMetrics
from clienthealth.step.state import CLIENT_WIDTH, UNDELIVERED, BucketState, load, save
from clienthealth.windows.packed import HEAD, METRICS_MAX, PART_HEAD
from tests.support.stepped import START, Stepped, logged, snapshot

QUEUES = [
    TopicMetrics("slow", thread="0", metrics={"queue-chunks": 2.0}),
    TopicMetrics("fast", partition=3, metrics={"records-lag": 7.0}),
]


def monitor(saved: bool = False) -> Stepped:
    """A producer that is stuck, an old consumer, a group, and lines of all kinds."""
    stepped = Stepped(saved=saved)
    for second in range(0, 90, 10):
        stuck = {
            "select-total": 7,
            "buffer-total-bytes": 100,
            "buffer-available-bytes": 100 - second,
            "waiting-threads": 1,
        }
        group = Snapshot(
            START + 1000 * second,
            Identity("groups", None, "default", "billing", "group", group="billing"),
            {"members": 1.0},
            [TopicMetrics("orders", 0, None, None, {"committed-offset": second, "end-offset": 2.0 * second})],
        )
        stepped.batch(
            [
                snapshot(second, stuck),
                snapshot(second, {"max-lag": second}, "c", "legacy-consumer", topics=QUEUES),
                group,
                logged(second, client_id="p", waitMs="60000"),
                logged(second, "producer-close-begins", "p") if second == 50 else logged(second + 0.5),
            ],
            second + 1,
        )
    return stepped


def contents(state: BucketState) -> dict[str, Any]:
    fields = {name: getattr(state, name) for name in BucketState.__dataclass_fields__ if name != "incidents"}
    for name in ("clients", "rows", "parts", "reported_once"):
        fields[name] = np.nan_to_num(fields[name], nan=-1.5).tolist()
    return fields | {"incidents": sorted(map(repr, state.incidents.all))}


def test_what_is_loaded_is_what_was_saved() -> None:
    state = monitor().state
    state.reported_once = np.array([7, 1 << 31], np.uint32)
    assert state.incidents.of_client("shop|h:1|p") and state.groups and state.log_entries and len(state.parts)
    assert contents(load(save(state, 32), 32)) == contents(state)


def test_a_step_goes_on_from_bytes_as_from_memory() -> None:
    kept, saved = monitor(), monitor(saved=True)
    assert [p.records for p in kept.published] == [p.records for p in saved.published]
    assert contents(kept.state) == contents(saved.state)


def test_another_number_of_buckets_is_refused_in_one_sentence() -> None:
    data = save(BucketState(), 32)
    with pytest.raises(
        StateError, match=r"^the checkpoint was written with 32 buckets, \[monitor\] buckets says 16; "
    ) as logged:
        load(data, 16)
    assert "\n" not in str(logged.value)


def test_another_form_is_refused_in_one_sentence() -> None:
    data = save(BucketState(), 32)
    with pytest.raises(StateError, match=r"written in form 9 of the state, this program reads form 1; run the release"):
        load(data[:3] + bytes([9]) + data[4:], 32)
    with pytest.raises(StateError, match="holds no state of this monitor"):
        load(b"something else", 32)


def of_another_release(state: BucketState) -> bytes:
    """The state as a program wrote it that knew the producers' third metric not yet, and one more after the fourth.

    The same for what is said of topics, and for what tells how much was not delivered.
    """
    data = save(state, 1)
    saved = msgspec.msgpack.decode(data[4:])
    new = np.full((len(state.rows), HEAD + METRICS_MAX + 1), np.nan)
    new[:, :HEAD] = state.rows[:, :HEAD]
    before = {kind: list(names) for kind, names in CLIENT_METRICS.items()}
    before["producer"] = [*before["producer"][:2], before["producer"][3], "gone-total", *before["producer"][4:]]
    before["group"] = [*before["group"], *(f"other-{n}" for n in range(METRICS_MAX + 1 - len(before["group"])))]
    for at, row in enumerate(state.rows):
        kind = state.whos[int(row[4])].kind
        for position, name in enumerate(before[kind]):
            metric_names = list(CLIENT_METRICS[kind])
            new[at, HEAD + position] = row[HEAD + metric_names.index(name)] if name in metric_names else 77.0
    saved["vocabulary"] = before
    topics = ["gone", *reversed(list(TOPIC_METRICS))]
    parts = np.full((len(state.parts), PART_HEAD + len(topics)), 77.0)
    parts[:, :PART_HEAD] = state.parts[:, :PART_HEAD]
    parts[:, PART_HEAD + 1 :] = state.parts[:, PART_HEAD:][:, ::-1]
    saved["topic_metrics"] = topics
    clients = np.full((len(state.clients), CLIENT_WIDTH - 1), np.nan)
    clients[:] = state.clients[:, :-1]
    saved["undelivered"], saved["clients"] = UNDELIVERED[:-1], clients.tobytes()
    chunk = saved["readings"]
    chunk[4], chunk[5] = new.tobytes(), parts.tobytes()
    return data[:4] + msgspec.msgpack.encode(saved)


def test_a_state_of_other_metrics_is_read_by_their_names() -> None:
    state = monitor().state
    third = HEAD + 2
    assert list(CLIENT_METRICS["producer"])[2] not in ("select-total", "buffer-total-bytes", "buffer-available-bytes")
    loaded = load(of_another_release(state), 1)
    expected = state.rows.copy()
    expected[[state.whos[int(row[4])].kind == "producer" for row in expected], third] = np.nan
    assert np.array_equal(loaded.rows, expected, equal_nan=True)
    assert np.array_equal(loaded.parts, state.parts, equal_nan=True)
    assert np.array_equal(loaded.clients[:, :-1], state.clients[:, :-1], equal_nan=True)
    assert np.isnan(loaded.clients[:, -1]).all()


@pytest.mark.parametrize("threads", [1, 20])
def test_a_storm_of_100_000_lines_keeps_the_state_bounded(threads: int) -> None:
    bounded = Stepped()
    sizes = []
    for second in range(0, 400, 10):
        storm = (
            logged(second + n / 2500, "consumer-metadata-fetch-failed", thread=f"pool-{n % threads}")
            for n in range(2500)
        )
        bounded.batch([snapshot(second, {"select-total": second}), *storm], second + 10)
        sizes.append(len(save(bounded.state, 1)))
    # Of a second of it ten lines of each thread, for the three minutes in which a window can still be judged.
    assert len(bounded.state.log_entries) <= 10 * threads * 19
    assert sizes[-1] <= 1.1 * sizes[len(sizes) // 2] < 1_000_000


def test_of_clients_that_have_gone_nothing_stays() -> None:
    bounded = Stepped()
    for n in range(50):
        names = [snapshot(60 * n, {"select-total": n}, f"{n}-{m}", instance=f"h:{n}", host=f"h{n}") for m in range(20)]
        bounded.batch(names, 60 * n + 1)
    assert len(bounded.state.whos) <= 40
    assert len(bounded.state.rows) == len(bounded.state.whos)
