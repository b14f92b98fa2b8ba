"""The options of a review select the period of the review."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from clienthealth.model.errors import InputError
from clienthealth.ops.cli import main
from clienthealth.review.period import Period, period

SATURDAY = datetime(2026, 11, 21, 7, 30, tzinfo=UTC)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("begin", "end", "week", "start", "stop", "label"),
    [
        (None, None, None, "2026-11-09", "2026-11-16", "2026-W46"),
        (None, None, "2026-W53", "2026-12-28", "2027-01-04", "2026-W53"),
        ("2026-W44", "2026-W45", None, "2026-10-26", "2026-11-09", "2026-10-26_2026-11-08"),
        ("2026-11-09", "2026-11-15", None, "2026-11-09", "2026-11-16", "2026-W46"),
        ("2026-11-10", None, None, "2026-11-10", "2026-11-17", "2026-11-10_2026-11-16"),
        ("2026-Q3", None, None, "2026-07-01", "2026-10-01", "2026-Q3"),
        ("2026-Q4", "2026-Q4", None, "2026-10-01", "2027-01-01", "2026-Q4"),
        ("2026-02", None, None, "2026-02-01", "2026-03-01", "2026-02"),
        ("2026-11-05", "2026-11-30", None, "2026-11-05", "2026-12-01", "2026-11-05_2026-11-30"),
        ("2026-02", "2026-04", None, "2026-02-01", "2026-05-01", "2026-02-01_2026-04-30"),
        (None, "2026-11-10", None, "2026-11-04", "2026-11-11", "2026-11-04_2026-11-10"),
        ("2026-11-21T07:10", "2026-11-21T07:25:30", None, "2026-11-21T07:10", "2026-11-21T07:26",
         "2026-11-21T0710Z_2026-11-21T0726Z"),
        ("2026-11-21T09:10+02:00", "2026-11-21T07:25Z", None, "2026-11-21T07:10", "2026-11-21T07:25",
         "2026-11-21T0710Z_2026-11-21T0725Z"),
    ],
)  # fmt: skip
def test_periods(begin: str | None, end: str | None, week: str | None, start: str, stop: str, label: str) -> None:
    reviewed = period(begin, end, week, SATURDAY)
    assert reviewed == Period(utc(start), utc(stop))
    assert reviewed.label == label


@pytest.mark.parametrize("now", ["2026-11-16T00:00", "2026-11-22T23:59"])
def test_the_last_full_week_ends_with_the_last_sunday(now: str) -> None:
    assert period(None, None, None, utc(now)).label == "2026-W46"


@pytest.mark.parametrize(
    ("begin", "end", "week", "message"),
    [
        (
            "2026-13",
            None,
            None,
            "--from '2026-13': expected an ISO week (2026-W46), a month (2026-11), a quarter (2026-Q4)",
        ),
        ("2026-Q5", None, None, "--from '2026-Q5': expected an ISO week"),
        ("yesterday", None, None, "--from 'yesterday': expected an ISO week"),
        (None, "2026-02-30", None, "--to '2026-02-30': expected an ISO week"),
        (None, None, "2026-W54", "--week '2026-W54': expected an ISO week"),
        ("2026-11-09", None, "2026-W46", "--week cannot be combined"),
        ("2026-11-10", "2026-11-09", None, "must end (2026-11-10 00:00) after it begins (2026-11-10 00:00)"),
    ],
)
def test_what_is_no_period(begin: str | None, end: str | None, week: str | None, message: str) -> None:
    with pytest.raises(InputError) as caught:
        period(begin, end, week, SATURDAY)
    assert message in str(caught.value)


def test_steps_of_a_week_are_hours_and_of_a_quarter_of_an_hour_minutes() -> None:
    assert Period(utc("2026-11-09"), utc("2026-11-16")).step(168) == 60
    assert Period(utc("2026-11-09"), utc("2026-11-16")).step(10) == 1440
    assert Period(utc("2026-11-21T07:10"), utc("2026-11-21T07:25")).step(10) == 2


def test_parts_of_a_long_period_consist_of_whole_shorter_parts() -> None:
    year = Period(utc("2026-01-01"), utc("2027-01-01"))
    # Seven parts of 56 days are the fewest multiples of 28 days that cover 365 days in at most ten parts.
    assert (year.step(168), year.step(10)) == (7 * 1440, 56 * 1440)


def test_a_period_that_has_not_ended_is_reviewed_until_now() -> None:
    week = period(None, None, "2026-W47", SATURDAY)
    assert week.until(SATURDAY) == Period(utc("2026-11-16"), utc("2026-11-21T07:31"))
    assert week.until(utc("2026-11-23T08:00")) == week


def test_a_period_in_the_future_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["review", "--from", "9998-01"])
    assert ended.value.code == 2
    assert capsys.readouterr().err == "kafka-health: the period begins in the future (9998-01-01 00:00 UTC)\n"
