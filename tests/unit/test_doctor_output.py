"""`kafka-health doctor` prints each finding at once, and ends at Ctrl-C."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from http.client import BadStatusLine
from typing import NoReturn

import pytest

from clienthealth.ops import doctor
from clienthealth.ops.cli import main
from clienthealth.ops.doctor import Check, Finding, State, checks, machine
from clienthealth.ops.doctor.servers import limits, servers
from clienthealth.settings import MonitorSettings, ReviewSettings, Settings


def finds(*states: State) -> Check:
    def check(_: Settings) -> Iterator[Finding]:
        yield from (Finding(f"{state}-thing", state, "As it is.") for state in states)

    return check


def ran(monkeypatch: pytest.MonkeyPatch, *of: tuple[str, Check]) -> object:
    monkeypatch.setattr(doctor, "checks", lambda: of)
    with pytest.raises(SystemExit) as ended:
        main(["doctor"])
    return ended.value.code


@pytest.mark.parametrize(
    ("states", "code", "last"),
    [
        (("ok", "warning"), 0, "Nothing failed."),
        (("ok", "skipped"), 0, "Nothing failed; not checked: skipped-thing."),
        (("skipped", "failed", "ok"), 1, "1 finding(s) need a remedy."),
    ],
)
def test_the_last_line_omits_what_was_not_checked(
    states: tuple[State, ...],
    code: int,
    last: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert ran(monkeypatch, ("", finds(*states))) == code
    assert capsys.readouterr().out.splitlines()[-1] == last


def test_findings_are_printed_as_they_are_made_and_a_long_wait_is_announced(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[tuple[str, str]] = []

    def slow(_: Settings) -> Iterator[Finding]:
        seen.append(capsys.readouterr())
        yield Finding("place", "ok", "It works.")
        seen.append(capsys.readouterr())

    assert ran(monkeypatch, ("", finds("ok")), ("Starting what takes long …", slow)) == 0
    assert seen == [
        ("ok       ok-thing: As it is.\n", "Starting what takes long …\n"),
        ("ok       place: It works.\n", ""),
    ]


def test_ctrl_c_ends_it_with_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(_: Settings) -> Iterator[Finding]:
        yield Finding("place", "ok", "It works.")
        raise KeyboardInterrupt

    assert ran(monkeypatch, ("", interrupted), ("", finds("failed"))) == 130
    assert capsys.readouterr() == ("ok       place: It works.\n", "\nInterrupted before all checks had run.\n")


def test_what_starts_spark_is_last_and_alone_is_announced() -> None:
    *quick, (announcement, last) = checks()
    assert last is machine.places_work and "Spark" in announcement
    assert {printed for printed, _ in quick} == {""}


def test_a_server_that_does_not_speak_http_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def greet(*_: object, **__: object) -> NoReturn:
        raise BadStatusLine("SSH-2.0-OpenSSH_9.6\r\n")

    monkeypatch.setattr("urllib.request.urlopen", greet)
    monitor = dataclasses.replace(MonitorSettings(), metrics_port=9309)
    settings = Settings(review=ReviewSettings(prometheus_url="http://127.0.0.1:22"), monitor=monitor)
    why = "BadStatusLine: SSH-2.0-OpenSSH_9.6."
    assert next(servers(settings)).text == f"Prometheus at http://127.0.0.1:22 does not answer: {why}"
    assert next(limits(settings)).text.endswith(f"does not answer at http://127.0.0.1:9309/metrics: {why}")
