"""The monitor finds and skips records that kill it."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Set
from typing import Any

import pytest

from clienthealth.model.errors import ServiceError
from clienthealth.model.readings import Source
from clienthealth.spark.checkpoint import Part, Pending
from clienthealth.spark.poison import DEATHS, KILLS, Guard, narrowed

MOST = 10_000
HEAP, WORKER, KILLED = "heap", "Python worker exited unexpectedly (crashed)", None


class DiedError(Exception):
    pass


class Query:
    """A query that reads `sizes` records of each partition. A process that reads a record in `deadly` dies.

    `sign`: how a dying process shows that a record was the cause; None if it shows nothing.
    """

    def __init__(
        self, sizes: Mapping[Part, int], deadly: Set[tuple[Part, int]] = frozenset(), sign: str | None = WORKER
    ) -> None:
        self.sizes, self.deadly, self.sign = sizes, deadly, sign
        self.files: dict[str, str] = {}
        self.ends: list[dict[Part, int]] = [dict.fromkeys(sizes, 0)]
        self.committed = 0
        self.read_records: list[tuple[Part, int]] = []
        self.rejected: list[Source] = []
        self.starts = 0
        self.batches: list[int] = []

    def pending(self) -> Pending | None:
        planned = len(self.ends) - 1
        return None if planned == self.committed else Pending(planned, self.ends[-2], self.ends[-1])

    def end_at(self, pending: Pending, end: Mapping[Part, int]) -> None:
        self.ends[pending.batch] = {**self.ends[pending.batch - 1], **end}

    def begin_at(self, batch: int, part: Part, offset: int) -> None:
        self.ends[batch - 1][part] = offset

    def positions(self) -> dict[tuple[str, int], int]:
        return {part[1:]: offset for part, offset in self.ends[self.committed].items()}

    def read(self, name: str) -> str | None:
        return self.files.get(name)

    def write(self, name: str, text: str) -> None:
        self.files[name] = text

    def process(self, fault: Callable[[str], None] = lambda _: None, certain: bool = False) -> None:
        """Run a process until it has read all records or dies.

        `fault`: function that is called at each stage, and may raise. `certain`: True if the previous process exhausted
        its heap.
        """
        self.starts += 1
        guard = Guard(self)  # type: ignore[arg-type]
        guard.begin(certain)
        fault("start")
        while True:
            pending = self.pending()
            if pending is None:
                if self.ends[-1] == self.sizes:
                    guard.ended(None)
                    return
                self._plan(guard.limit or MOST)
                pending = self.pending()
            assert pending is not None
            guard.reads(pending.batch)
            fault("read")
            batch = [(part, offset) for part, end in pending.end.items() for offset in range(pending.begin[part], end)]
            if self.deadly & set(batch):
                if self.sign == WORKER:
                    guard.ended(WORKER)
                raise DiedError
            writes = guard.writes(pending.batch)
            self.rejected += [writes] if writes else []
            self.read_records += batch
            self.batches.append(len(batch))
            self.committed = pending.batch
            if guard.committed(1) and guard.limit > MOST:
                guard.unlimited()

    def _plan(self, limit: int) -> None:
        left = {part: size - self.ends[-1][part] for part, size in self.sizes.items()}
        total = sum(left.values())
        step = {part: min(n, max(1, n * limit // total)) if n else 0 for part, n in left.items()}
        self.ends.append({part: offset + step[part] for part, offset in self.ends[-1].items()})

    def killed(self, at: str) -> None:
        def fault(stage: str) -> None:
            if stage == at:
                raise DiedError

        with pytest.raises(DiedError):
            self.process(fault)

    def run(self) -> None:
        for _ in range(1000):
            try:
                self.process(certain=self.sign == HEAP and self.starts > 0)
                return
            except DiedError:
                continue
        raise AssertionError("the process still dies after 1000 runs")


@pytest.mark.parametrize("sign", [HEAP, WORKER, KILLED])
@pytest.mark.parametrize("parts", [1, 2, 7])
@pytest.mark.parametrize("bombs", [1, 3])
def test_all_but_the_deadly_records_are_read_once_and_these_are_reported(
    parts: int, bombs: int, sign: str | None
) -> None:
    sizes: dict[Part, int] = {(n % 2, f"topic-{n % 2}", n): 1500 + n for n in range(parts)}
    chosen = random.Random(parts * 10 + bombs)
    everything = [(part, offset) for part, size in sizes.items() for offset in range(size)]
    deadly = set(chosen.sample(everything, bombs))
    query = Query(sizes, deadly, sign)
    query.run()
    assert sorted(query.read_records) == sorted(set(everything) - deadly)
    assert sorted((s.topic, s.partition, s.offset) for s in query.rejected) == sorted(
        (part[1], part[2], offset) for part, offset in deadly
    )
    # Finding a deadly record takes 12 starts in one partition, and 50 starts in several partitions.
    starts = 12 if parts == 1 else 50
    assert query.starts <= (starts * bombs if sign else 3 * starts * bombs + 2 * KILLS * bombs)


def test_repeated_kills_from_outside_lose_nothing() -> None:
    sizes: dict[Part, int] = {(0, "metrics", 0): 3000, (1, "logs", 0): 50}
    query = Query(sizes)
    chosen = random.Random(7)

    def killed(_: str) -> None:
        if chosen.random() < 0.2:
            raise DiedError

    for _ in range(300):
        try:
            query.process(killed)
            break
        except DiedError:
            continue
    assert len(query.read_records) == 3050
    assert query.rejected == []


@pytest.mark.parametrize(("stage", "kills"), [("read", KILLS - 2), ("start", 5 * KILLS)])
def test_kills_from_outside_narrow_nothing(stage: str, kills: int) -> None:
    query = Query({(0, "metrics", 0): 100_000})
    query.killed("read")
    for _ in range(kills):
        query.killed(stage)
    query.run()
    assert query.batches == [MOST] * 10


def test_kills_beyond_number_cost_what_is_under_suspicion_and_then_all_goes_at_full_speed() -> None:
    query = Query({(0, "metrics", 0): 100_000})
    for _ in range(KILLS):
        query.killed("read")
    query.killed("read")
    query.killed("read")
    query.run()
    assert len(query.read_records) == 100_000 and query.rejected == []
    assert query.batches == [625] * 16 + [MOST] * 9


def test_a_kill_after_a_fault_of_a_record_is_no_other_one() -> None:
    query = Query({(0, "metrics", 0): 100_000}, {((0, "metrics", 0), 33)})
    for _ in range(DEATHS - 1):
        with pytest.raises(DiedError):
            query.process()
    for _ in range(5):
        query.killed("read")
    assert query.ends[-1] == {(0, "metrics", 0): MOST}
    with pytest.raises(DiedError):
        query.process()
    Guard(query).begin()  # type: ignore[arg-type]
    assert query.ends[-1] == {(0, "metrics", 0): 625}


@pytest.mark.parametrize("sign", [HEAP, WORKER])
def test_after_the_culprit_is_out_all_else_is_read_at_full_speed(sign: str) -> None:
    query = Query({(0, "metrics", 0): 100_000}, {((0, "metrics", 0), 33)}, sign)
    query.run()
    assert len(query.read_records) == 99_999 and len(query.rejected) == 1
    out = query.read_records.index(((0, "metrics", 0), 34))
    before = query.batches[: next(n for n in range(len(query.batches)) if sum(query.batches[:n]) >= out)]
    assert query.batches[len(before) :] in ([0, *[MOST] * 9, 9966], [*[MOST] * 9, 9966])


def test_what_exhausts_the_heap_by_its_size_is_read_in_parts_for_longer() -> None:
    query = Query({(0, "metrics", 0): 1000})
    query._plan(MOST)
    guard = Guard(query)  # type: ignore[arg-type]
    guard.begin()
    guard = Guard(query)  # type: ignore[arg-type]
    guard.begin(certain=True)
    assert guard.limit == 62
    query.committed = 1
    query._plan(MOST)
    query.committed = 2
    assert not guard.committed(2), "all is read, but no record was to blame"
    assert guard.limit == 62


def test_what_ends_even_where_nothing_is_read_is_no_records_fault() -> None:
    query = Query({(0, "metrics", 0): 40})

    def broken(stage: str) -> None:
        if stage == "read":
            raise DiedError

    message = ""
    for _ in range(4 * KILLS):
        try:
            query.process(broken)
        except DiedError:
            continue
        except ServiceError as error:
            message = str(error)
            break
    assert "although it reads no record" in message
    query.run()
    assert len(query.read_records) == 40
    assert query.rejected == []


def test_a_batch_of_which_something_is_written_is_never_made_smaller() -> None:
    query = Query({(0, "metrics", 0): 100})
    guards: list[Any] = []
    for _ in range(5):
        guard = Guard(query)  # type: ignore[arg-type]
        guard.begin()
        if query.pending() is None:
            query._plan(MOST)
        guard.writes(1)
        guards.append(guard)
    assert query.pending() == Pending(1, {(0, "metrics", 0): 0}, {(0, "metrics", 0): 100})


@pytest.mark.parametrize(
    ("why", "limited"),
    [
        ("Kafka: org.apache.kafka.common.errors.TimeoutException: Call(callName=…)", False),
        ("java.io.IOException: No space left on device", False),
        ("PythonException: clienthealth.model.errors.StateError: the checkpoint has version 9 of the state", False),
        ("PythonException: Traceback…\nModuleNotFoundError: No module named 'clienthealth'", False),
        ("org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)", True),
    ],
)
def test_faults_of_the_surroundings_are_not_taken_for_those_of_records(why: str, limited: bool) -> None:
    query = Query({(0, "metrics", 0): 100})
    for _ in range(DEATHS + 1):
        guard = Guard(query)  # type: ignore[arg-type]
        guard.begin()
        if query.pending() is None:
            query._plan(MOST)
        guard.ended(why)
    guard = Guard(query)  # type: ignore[arg-type]
    guard.begin()
    assert bool(guard.limit) == limited


def test_a_process_that_hung_while_another_took_its_place_writes_no_result_and_no_note() -> None:
    query = Query({(0, "t", 0): 10})
    hung, next_one = (Guard(query) for _ in range(2))  # type: ignore[arg-type]
    hung.begin()
    assert hung.owns()
    next_one.begin()
    noted = dict(query.files)
    assert next_one.owns() and not hung.owns()
    hung.ended("StateError: another monitor works on the checkpoint")
    assert query.files == noted


def test_narrowing_ends_with_one_record() -> None:
    sizes: dict[Part, int] = {(0, "t", n): 100_000 for n in range(12)}
    rounds = 0
    while sum(sizes.values()) > 1:
        sizes, rounds = narrowed(sizes, random.Random(rounds)), rounds + 1
    assert rounds <= 10
