"""The demo reports each verdict and alert that no failure of the demo's clients explains."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

import pytest

from clienthealth.model.verdicts import Status
from deploy.demo import lasting
from deploy.demo.clients import CLIENTS
from deploy.demo.main import shortcomings
from deploy.demo.progress import Course, unexplained
from deploy.demo.running import Running
from deploy.demo.webhook import Page

RUNBOOK = {"runbook_url": "http://127.0.0.1:9309/runbooks/x"}
DEADLOCK = "producer-callback-deadlock"


@dataclass
class Process:
    pid: int
    onset_ms: int | None = 0

    def is_instance(self, name: str) -> bool:
        return name.endswith(f":{self.pid}")


def course(name: str, pid: int, *seen: tuple[str, Status]) -> Course:
    running = cast(Running, Process(pid))
    return Course(CLIENTS[name], running, first={(mode, status): 1 for mode, status in seen})


def page(name: str = "X", annotations: dict[str, str] = RUNBOOK, severity: str = "critical", **labels: str) -> Page:
    return Page(1, "firing", {"alertname": name, "severity": severity, **labels}, annotations)


DEADLOCKED = course("callback-deadlock", 7)
HEALTHY = course("healthy", 8)


@pytest.mark.parametrize(
    "labels",
    [
        {"service": "order-service", "instance": "h:7", "mode": DEADLOCK},
        {"service": "order-service", "instance": "h:7", "measurement": "buffer", "severity": "warning"},
        {"service": "order-service"},
    ],
)
def test_what_a_failure_does_is_explained(labels: dict[str, Any]) -> None:
    assert unexplained([page(**labels)], [DEADLOCKED, HEALTHY]) == []


@pytest.mark.parametrize(
    "labels",
    [
        {"service": "order-service", "instance": "h:7", "mode": "producer-not-closed"},
        {"service": "order-service", "instance": "h:9", "mode": DEADLOCK},
        {"service": "order-api", "instance": "h:8"},
        {"group": "billing", "severity": "warning"},
        {},
    ],
)
def test_what_no_failure_does_is_wrong(labels: dict[str, Any]) -> None:
    [sentence] = unexplained([page(**labels), page(**labels)], [DEADLOCKED, HEALTHY])
    assert sentence.startswith("wrong: ") and "no failing client explains the " in sentence


def test_a_ticket_for_the_group_of_a_consumer_that_fails_is_right_and_a_page_is_wrong() -> None:
    stalled = [course("consumer-stalled", 9)]
    assert unexplained([page(group="billing", severity="warning")], stalled) == []
    assert len(unexplained([page(group="billing", severity="critical")], stalled)) == 1
    assert len(unexplained([page(group="ledger", severity="warning")], stalled)) == 1
    assert len(unexplained([page(group="billing", severity="warning")], [course("idle-consumer", 9)])) == 1


def test_a_ticket_for_what_a_controls_load_does_is_right_and_a_page_is_wrong() -> None:
    connectors = [course("connector-per-topic", 9)]
    labels: dict[str, Any] = {"service": "trade-feed", "instance": "h:9"}
    assert unexplained([page(**labels, measurement="queue", severity="warning")], connectors) == []
    assert len(unexplained([page(**labels, measurement="queue")], connectors)) == 1
    assert len(unexplained([page(**labels, measurement="buffer", severity="warning")], connectors)) == 1


def test_an_alert_without_a_runbook_is_wrong() -> None:
    assert unexplained([page("A", {}, service="order-service")], [DEADLOCKED]) == [
        "wrong: the critical alert A (service order-service) has no link to a runbook"
    ]


def test_a_client_may_only_be_suspected_during_an_outage_of_its_broker() -> None:
    suspected: tuple[str, Status] = ("send-blocked-on-metadata", "suspected")
    confirmed: tuple[str, Status] = ("send-blocked-on-metadata", "confirmed")
    assert shortcomings((), [course("restless", 1, suspected), course("healthy", 2)], []) == []
    assert shortcomings((), [course("healthy", 2, suspected)], []) == [
        "wrong: healthy is healthy but was accused of send-blocked-on-metadata"
    ]
    assert shortcomings((), [course("rolled", 3, suspected)], []) == [
        "wrong: rolled is healthy but was accused of send-blocked-on-metadata"
    ]
    assert shortcomings((), [course("restless", 1, suspected, confirmed)], []) == [
        "wrong: restless is healthy but was accused of send-blocked-on-metadata"
    ]


def test_an_expected_page_is_waited_for_and_so_is_its_proof() -> None:
    assert shortcomings((DEADLOCK,), [DEADLOCKED, HEALTHY], []) == [
        f"missing: no page came for {DEADLOCK}. callback-deadlock has begun to fail, and its verdict is unknown"
    ]
    paged = replace(DEADLOCKED, paged={DEADLOCK: 1}, kinds={DEADLOCK: {"thread-dump"}})
    assert shortcomings((DEADLOCK,), [paged, HEALTHY], []) == [
        f"missing: evidence for {DEADLOCK}: callback-deadlock needs 2 kinds of evidence, but has only thread-dump"
    ]
    proved = replace(paged, kinds={DEADLOCK: {"thread-dump", "metric"}})
    assert shortcomings((DEADLOCK,), [proved, HEALTHY], []) == []


def lasts(**changed: Any) -> Course:
    now: dict[str, Status] = {DEADLOCK: "confirmed"}
    usual: dict[str, Any] = {"now": now, "first_shown_ms": 10_000, "last_shown_ms": 1_200_000, "firing": {DEADLOCK}}
    return replace(course("callback-deadlock", 7), **(usual | changed))


ITS_PAGE = Page(
    20_000,
    "firing",
    {
        "alertname": "X",
        "severity": "critical",
        "service": "order-service",
        "instance": "h:7",
        "client_id": "p",
        "mode": DEADLOCK,
    },
    RUNBOOK,
    "00:00:15",
)


@pytest.mark.parametrize(
    ("failing", "pages", "lacks"),
    [
        (lasts(), [ITS_PAGE, replace(ITS_PAGE, received_ms=900_000)], None),
        (lasts(), [], "caused 0 pages"),
        (lasts(), [ITS_PAGE, replace(ITS_PAGE, started="00:10:00")], "caused 2 pages"),
        (lasts(now={DEADLOCK: "ok"}), [ITS_PAGE], "not shown any more"),
        (lasts(gaps=[(100_000, 130_000)]), [ITS_PAGE], "did not always show the failure"),
        (lasts(firing=set()), [ITS_PAGE], "was resolved although callback-deadlock still fails"),
        (
            lasts(),
            [ITS_PAGE, replace(ITS_PAGE, labels={n: v for n, v in ITS_PAGE.labels.items() if n != "client_id"})],
            "names a process, but no client",
        ),
        (replace(lasts(), running=cast(Running, Process(7, None))), [], "has not begun within 1200 s"),
    ],
)
def test_a_failure_that_goes_on_is_shown_to_the_end_and_paged_once(
    failing: Course, pages: list[Page], lacks: str | None
) -> None:
    sentences = lasting.shortcomings([failing, HEALTHY], pages, 1200, now_ms=1_200_000)
    assert sentences == [] if lacks is None else any(lacks in sentence for sentence in sentences)
