"""The monitor reads its saved state. The state may come from a release of the monitor that knows other metrics."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import pytest

from clienthealth.measure.columns import Table
from clienthealth.measure.packed import METRICS_MAX, LogEntry
from clienthealth.model.errors import StateError
from clienthealth.model.metrics import CLIENT_METRICS, TOPIC_METRICS, UNDELIVERED
from clienthealth.model.telemetry import Identity, Snapshot, TopicMetrics
from clienthealth.monitor.state import BucketState, Memory, load, save
from tests.support.rows import long_after
from tests.support.stepped import START, Stepped, logged, snapshot

HEAD, PART_HEAD, CLIENT_HEAD = 9, 4, 8
QUEUES = [
    TopicMetrics("slow", thread="0", metrics={"queue-chunks": 2.0}),
    TopicMetrics("fast", partition=3, metrics={"records-lag": 7.0}),
]


def monitor() -> Stepped:
    stepped = Stepped(saved=False)
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
    fields = {name: getattr(state, name) for name in BucketState.__struct_fields__ if name != "incidents"}
    for name in ("clients", "readings", "parts"):
        fields[name] = {column: np.nan_to_num(rows, nan=-1.5).tolist() for column, rows in vars(fields[name]).items()}
    return fields | {"incidents": sorted(map(repr, state.incidents.all))}


def test_what_is_loaded_is_what_was_saved() -> None:
    state = monitor().state
    state.reported_once.remember((1 << 31,), None, state.time_ms)
    assert state.incidents.of_client("shop|h:1|p") and state.groups and state.log_entries and len(state.parts)
    assert contents(load(save(state, 32), 32)) == contents(state)


@pytest.mark.parametrize("seed", long_after(1, range(3)))
def test_what_the_stream_keeps_is_all_that_the_next_step_needs(seed: int) -> None:
    chosen = random.Random(seed)
    stream, memory = Stepped(), Stepped(saved=False)
    second, phase, until = 0.0, "nothing", 30.0
    while second < 1800:
        before, second = second, second + chosen.choice([1, 7, 15, 15, 20, 31, 45])
        if second > until:
            phase = chosen.choice(["all", "all", "some", "others", "nothing"])
            until = second + chosen.choice([20, 120, 300])
        inputs = list(_inputs(before, second, chosen)) if phase in ("all", "some") else []
        if phase == "some":
            inputs = [one for one in inputs if isinstance(one, LogEntry) or one.client.client_id != "p1"]
        others = second - 2 if phase != "nothing" else None
        ours, all_kept = (stepped.batch(inputs, second, others) for stepped in (stream, memory))
        assert ours == all_kept, f"{phase} at {second}"
        if stream.state.all_clients:
            assert contents(stream.state) == contents(memory.state), f"{phase} at {second}"
    kinds = {change.change for published in stream.published for change in published.changes}
    assert "opened" in kinds and len(stream.minutes) > 10


def _inputs(begin: float, end: float, chosen: random.Random) -> Iterator[Snapshot | LogEntry]:
    for second in range(math.ceil(begin), math.ceil(end)):
        for name, every in (("p0", 10), ("p1", 10), ("p2", 60)):
            moved = 7 if name == "p0" and 300 < second < 700 else second
            metrics = {"select-total": moved, "buffer-total-bytes": 100, "record-send-total": moved}
            free = 100 if moved == second else max(0, 100 - (second - 300))
            if second % every == 0:
                yield snapshot(second, {**metrics, "buffer-available-bytes": free}, name, every=every, host="h")
        if second % 30 == 0:
            partitions = [TopicMetrics("orders", 0, None, None, {"committed-offset": second, "end-offset": second + 5})]
            yield snapshot(second, {"members": 1}, "billing", "group", topics=partitions, instance="groups")
        if chosen.random() < 0.02:
            yield logged(
                second + chosen.choice([0, 0, 200]), "producer-close-begins", chosen.choice(["p0", "p1", None])
            )


def test_another_number_of_buckets_is_refused_in_one_sentence() -> None:
    data = save(BucketState(), 32)
    with pytest.raises(
        StateError, match=r"^the checkpoint was written with 32 buckets, but \[monitor\] buckets is 16; "
    ) as logged:
        load(data, 16)
    assert "\n" not in str(logged.value)


def test_another_form_is_refused_in_one_sentence() -> None:
    data = save(BucketState(), 32)
    for version in (3, 9):
        with pytest.raises(StateError, match=f"version {version} of the state, but this program reads versions 4 to 5"):
            load(data[:3] + bytes([version]) + data[4:], 32)
    with pytest.raises(StateError, match="holds no state of this monitor"):
        load(b"something else", 32)


def state_in_form_4(saved: dict[str, Any]) -> bytes:
    heads, chunk = saved["heads"], [*saved["readings"]]
    chunk[4] = row_by_row(chunk[4], heads[0] + max(map(len, saved["vocabulary"].values())))
    chunk[5] = row_by_row(chunk[5], heads[1] + len(saved["topic_metrics"]))
    clients = row_by_row(saved["clients"], heads[2] + len(saved["undelivered"]))
    return b"KCH\4" + msgspec.msgpack.encode({**saved, "readings": chunk, "clients": clients})


def row_by_row(by_column: bytes, width: int) -> bytes:
    return bytes(matrix(by_column, width).tobytes())


def test_a_state_of_form_4_is_read() -> None:
    state = monitor().state
    read = load(state_in_form_4(msgspec.msgpack.decode(save(state, 32)[4:])), 32)
    assert read.groups and contents(read) == contents(state)


def test_a_memory_forgets_what_is_old_unless_its_process_lives_and_the_oldest_beyond_its_limits() -> None:
    memory: Memory[tuple[str, str, str], int] = Memory()
    for at, key in enumerate(["aax", "bbx", "aay", "aaz", "bby"]):
        memory.remember((key[0], key[1], key[2]), at, 100 * at)
    assert memory.evict(350, 100, living={("b", "b")}) == []
    assert [value for _, value in memory.items()] == [1, 3, 4]
    memory.remember(("a", "a", "w"), 5, 250)
    assert memory.evict(500, each=1) == [("a", "a", "w"), ("b", "b", "x")]
    assert memory.evict(500, limit=1) == [("a", "a", "z")]
    assert list(memory.items()) == [(("b", "b", "y"), 4)]


def matrix(data: bytes, width: int) -> Any:
    return np.frombuffer(data, np.float64).reshape(width, -1).T


def test_the_columns_are_those_that_0_2_reads_and_writes() -> None:
    stepped = Stepped()
    partitions = [TopicMetrics("b", thread="0", metrics={"records-lag": 4.0}), TopicMetrics("a", 3)]
    consumer = snapshot(7, {"select-total": 5}, "c", "consumer", topics=partitions, every=20, delta=True)
    stepped.batch([snapshot(9, {"buffer-total-bytes": 6, "select-total": 7}, "p"), consumer], 10)
    saved = msgspec.msgpack.decode(save(stepped.state, 1)[4:])
    rows = matrix(saved["readings"][4], HEAD + METRICS_MAX)
    parts = matrix(saved["readings"][5], PART_HEAD + len(TOPIC_METRICS))
    clients = matrix(saved["clients"], CLIENT_HEAD + len(UNDELIVERED))
    names = saved["readings"][3]
    assert saved["heads"] == [HEAD, PART_HEAD, CLIENT_HEAD]
    assert sorted(names) == ["0", "a", "b", "client-metrics"]
    # The first columns of a sample's row in `PackedSamples`.
    topic = names.index("client-metrics")
    assert rows[:, : HEAD + 1].tolist() == [
        [START + 9000, 0, 0, topic, 0, -1, 10_000, 0, 1, 7],
        [START + 7000, 0, 1, topic, 1, -1, 20_000, 1, 1, 5],
    ]
    assert parts[:, :PART_HEAD].tolist() == [
        [1, names.index("a"), 3, -1],
        [1, names.index("b"), -1, names.index("0")],
    ]
    assert parts[:, PART_HEAD + 2].tolist()[1] == 4
    # The first columns of a client's row in `Clients`.
    assert clients[0, :7].tolist() == [START + 9000, START + 9000, START + 9000, 10_000, START, -1, START + 9000]
    assert clients[1, :7].tolist() == [START + 7000, START + 7000, START + 7000, 20_000, START, -1, START + 7000]
    assert clients[:, 7].all()
    assert clients[0, CLIENT_HEAD] == 6


def test_a_state_without_publications_publishes_everything_at_once() -> None:
    state = monitor().state
    data = save(state, 1)
    saved = msgspec.msgpack.decode(data[4:])
    clients = matrix(saved["clients"], CLIENT_HEAD + len(UNDELIVERED))
    saved["heads"][2], saved["clients"] = 6, np.delete(clients, [6, 7], axis=1).tobytes("F")
    loaded = load(data[:4] + msgspec.msgpack.encode(saved), 1).clients
    assert loaded.published_ms.tolist() == loaded.published.tolist() == [0] * len(state.all_clients)
    state.clients.published_ms[:] = state.clients.published[:] = 0
    assert equal(loaded, state.clients)


def test_a_partition_that_was_not_known_to_an_earlier_release_is_not_known() -> None:
    data = save(monitor().state, 1)
    saved = msgspec.msgpack.decode(data[4:])
    parts = matrix(saved["readings"][5], PART_HEAD + len(TOPIC_METRICS)).copy()
    parts[parts[:, 2] < 0, 2] = np.nan
    assert np.isnan(parts[:, 2]).any() and not np.isnan(parts[:, 2]).all()
    saved["readings"][5] = parts.tobytes("F")
    assert contents(load(data[:4] + msgspec.msgpack.encode(saved), 1)) == contents(load(data, 1))


def other_release_state(state: BucketState) -> bytes | bytearray:
    data = save(state, 1)
    saved = msgspec.msgpack.decode(data[4:])
    chunk = saved["readings"]
    rows = matrix(chunk[4], HEAD + METRICS_MAX)
    new = np.full((len(rows), HEAD + METRICS_MAX + 1), np.nan)
    new[:, :HEAD] = rows[:, :HEAD]
    before = {kind: list(names) for kind, names in CLIENT_METRICS.items()}
    before["producer"] = [*before["producer"][:2], before["producer"][3], "gone-total", *before["producer"][4:]]
    before["group"] = [*before["group"], *(f"other-{n}" for n in range(METRICS_MAX + 1 - len(before["group"])))]
    for at, row in enumerate(rows):
        kind = state.all_clients[int(row[4])].kind or ""
        for position, name in enumerate(before[kind]):
            metric_names = list(CLIENT_METRICS[kind])
            new[at, HEAD + position] = row[HEAD + metric_names.index(name)] if name in metric_names else 77.0
    saved["vocabulary"] = before
    topics = ["gone", *reversed(list(TOPIC_METRICS))]
    topic_rows = matrix(chunk[5], PART_HEAD + len(TOPIC_METRICS))
    parts = np.full((len(topic_rows), PART_HEAD + len(topics)), 77.0)
    parts[:, :PART_HEAD] = topic_rows[:, :PART_HEAD]
    parts[:, PART_HEAD + 1 :] = topic_rows[:, PART_HEAD:][:, ::-1]
    saved["topic_metrics"] = topics
    clients = matrix(saved["clients"], CLIENT_HEAD + len(UNDELIVERED))[:, :-1]
    saved["undelivered"], saved["clients"] = UNDELIVERED[:-1], clients.tobytes("F")
    chunk[4], chunk[5] = new.tobytes("F"), parts.tobytes("F")
    return data[:4] + msgspec.msgpack.encode(saved)


def test_a_state_of_other_metrics_is_read_by_their_names() -> None:
    state = monitor().state
    assert list(CLIENT_METRICS["producer"])[2] not in ("select-total", "buffer-total-bytes", "buffer-available-bytes")
    loaded = load(other_release_state(state), 1)
    producers = [state.all_clients[number].kind == "producer" for number in state.readings.client]
    state.readings.values[producers, 2] = np.nan
    state.clients.values[:, -1] = np.nan
    assert equal(loaded.readings, state.readings)
    assert equal(loaded.parts, state.parts)
    assert equal(loaded.clients, state.clients)


def equal(one: Table, other: Table) -> bool:
    pairs = zip(vars(one).values(), vars(other).values(), strict=True)
    return all(np.array_equal(mine, others, equal_nan=True) for mine, others in pairs)


@pytest.mark.parametrize("threads", long_after(1, [1, 20]))
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
    # The state keeps ten lines of each thread per second, for three minutes.
    assert len(bounded.state.log_entries) <= 10 * threads * 19
    assert sizes[-1] <= 1.1 * sizes[len(sizes) // 2] < 1_000_000


def test_of_clients_that_have_gone_nothing_stays() -> None:
    bounded = Stepped()
    for n in range(50):
        names = [snapshot(60 * n, {"select-total": n}, f"{n}-{m}", instance=f"h:{n}", host=f"h{n}") for m in range(20)]
        bounded.batch(names, 60 * n + 1)
    assert len(bounded.state.all_clients) <= 40
    assert len(bounded.state.readings) == len(bounded.state.all_clients)
