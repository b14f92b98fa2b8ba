"""Thread dumps show since when a thread has stayed at one place."""

from __future__ import annotations

from clienthealth.model.readings import Thread, ThreadDump
from clienthealth.modes.held import Held, held

AT, ELSEWHERE = ("shop.Handler.take", "shop.Main.run"), ("shop.Main.run",)


def dump(second: int, *threads: Thread) -> ThreadDump:
    return ThreadDump(1000 * second, threads)


def at(name: str = "worker", frames: tuple[str, ...] = AT, cpu_ms: float | None = None) -> Thread:
    return Thread(name, "WAITING", frames, cpu_ms)


def in_handler(_: ThreadDump, thread: Thread) -> str | None:
    return "handler" if AT[0] in thread.frames else None


def spans(stays: list[Held]) -> list[tuple[str, int, float]]:
    return [(stay.thread.name, stay.since_ms, stay.seconds) for stay in stays]


def test_each_dump_shows_since_when_each_thread_is_there() -> None:
    dumps = [dump(0, at("a"), at("b")), dump(10, at("a"), at("b", ELSEWHERE)), dump(30, at("a"), at("b"))]
    assert spans(held(dumps, in_handler)) == [
        ("a", 0, 0.0),
        ("b", 0, 0.0),
        ("a", 0, 10.0),
        ("a", 0, 30.0),
        ("b", 30_000, 0.0),
    ]


def test_a_dump_that_does_not_show_it_ends_its_stay() -> None:
    assert spans(held([dump(0, at()), dump(10), dump(20, at())], in_handler))[-1] == ("worker", 20_000, 0.0)


def test_another_place_is_another_stay() -> None:
    dumps = [dump(0, at()), dump(10, at(frames=ELSEWHERE)), dump(20, at(frames=ELSEWHERE))]
    assert spans(held(dumps, lambda _, thread: thread.frames)) == [
        ("worker", 0, 0.0),
        ("worker", 10_000, 0.0),
        ("worker", 10_000, 10.0),
    ]


def test_what_other_data_contradicts_begins_again() -> None:
    dumps = [dump(0, at(cpu_ms=1.0)), dump(10, at(cpu_ms=500.0)), dump(20, at(cpu_ms=500.0))]
    stays = held(dumps, in_handler, stays=lambda stay: stay.cpu_ms == 0)
    assert spans(stays)[1:] == [("worker", 10_000, 0.0), ("worker", 10_000, 10.0)]
    assert stays[-1].cpu_ms == 0
    assert stays[-1].repeated == " in 2 dumps over 10 s"


def test_two_threads_of_one_name_are_each_where_they_are() -> None:
    dumps = [dump(second, at(), at(frames=ELSEWHERE)) for second in (0, 10)]
    assert spans(held(dumps, lambda _, thread: thread.frames))[-2:] == [("worker", 0, 10.0), ("worker", 0, 10.0)]
