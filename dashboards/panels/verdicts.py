"""Panels with verdicts: numbers of clients, unhealthy clients, and status over time."""

from __future__ import annotations

from collections.abc import Sequence

from clienthealth.configuration.installation import KEPT, listed
from clienthealth.model.verdicts import STATUS_ORDER
from clienthealth.modes import Mode
from dashboards.look import CRITICAL, NEUTRAL, STATUS_COLOURS, WARNING, status_words, words
from dashboards.panel import Panel, Query, number, rows, timeline
from dashboards.scope import (
    BY_CLIENT,
    BY_SHARD,
    LEGEND,
    NAMED_KEPT,
    OF_CLIENT,
    OF_KEPT,
    OF_SERVICE,
    to_client,
    to_runbook,
    to_service,
    worst,
)

_MODE = "kafka_client_failure_mode"
_SINCE = "kafka_client_failure_mode_since_timestamp_seconds"
_BANDS = 100
_NONE = f"0 * max(kafka_client_health_exporter_up{{{OF_KEPT}}})"


def clients(statuses: str, by: str = "") -> str:
    """Return a query that counts the clients with these statuses (such as `confirmed|suspected`).

    `by`: PromQL text that groups the clients, such as ` by (service)`; '' to count all clients together.
    """
    chosen = f'status=~"{statuses}", {OF_SERVICE}'
    return f"sum{by} (max by ({BY_SHARD}, status) (kafka_client_service_clients{{{chosen}}}))"


def in_mode(statuses: str, mode: Mode | None = None, by: str = "") -> str:
    """Return a query that counts the clients with these statuses in a failure mode.

    If `mode` is None, the query sums the counts of all modes. `by`: PromQL text that groups the clients, such as
    ` by (service)`; '' to count all clients together.
    """
    chosen = ", ".join(([f'mode="{mode.id}"'] if mode else []) + [f'status=~"{statuses}"', OF_SERVICE])
    return f"sum{by} (max by ({BY_SHARD}, mode, status) (kafka_client_service_failure_mode_clients{{{chosen}}}))"


def by_mode() -> Query:
    by = listed((*KEPT, "mode"))
    return Query(worst(in_mode("suspected|confirmed", by=f" by ({by})"), by, zeros=True), f"{{{{mode}}}} {NAMED_KEPT}")


def failing(status: str, by: str = "", mode: Mode | None = None) -> str:
    """Return a query that counts the clients with this status in `mode`, or in any failure mode if `mode` is None.

    `by`: PromQL text that groups the clients, such as ` by (service)`; '' to count all clients together.
    """
    return f'count{by} (max by ({BY_CLIENT}) ({_MODE}{{status="{status}", {_of(mode)}}}))'


def _count(status: str, mode: Mode | None) -> str:
    return f"{failing(status, mode=mode)}\nor\n{_NONE}"


def _of(mode: Mode | None) -> str:
    return OF_CLIENT if mode is None else f'mode="{mode.id}", {OF_CLIENT}'


def confirmed(id_: int, mode: Mode | None = None, width: int = 4) -> Panel:
    return number(
        id_,
        "Confirmed",
        "Clients with a confirmed failure. Any failing client is bad. What to do: find the client in the table of "
        "unhealthy clients, and follow the runbook of the failure mode. Alert: the failure mode's alert, which pages "
        "somebody.",
        _count("confirmed", mode),
        "none",
        above={1: CRITICAL},
        nothing="no verdicts",
        width=width,
    )


def suspected(id_: int, mode: Mode | None = None, width: int = 4) -> Panel:
    return number(
        id_,
        "Suspected",
        "Clients with a failure that is suspected on indirect evidence. A suspected client may also have a confirmed "
        "failure in another mode. A suspicion may clear by itself. If a suspicion lasts, the failure mode's alert "
        "(with status suspected) opens a ticket.",
        _count("suspected", mode),
        "none",
        above={1: WARNING},
        nothing="no verdicts",
        width=width,
    )


def unknown(id_: int, mode: Mode | None = None, width: int = 4) -> Panel:
    """Return a panel with the number of clients that cannot be judged in `mode` (None: in any failure mode)."""
    judged = "in any failure mode" if mode is None else "in this failure mode"
    alert = "No alert." if mode else "Alerts: KafkaClientServiceNotJudged, KafkaClientFleetNotJudged."
    return number(
        id_,
        "Not judged",
        f"Clients of the chosen services that cannot be judged {judged}, because they send too few samples or too "
        "little data. Clients that cannot be judged count neither as healthy nor as unhealthy. It is bad if many "
        "clients cannot be judged. What to do: check the monitor's input on the dashboard 'Kafka clients: monitor "
        f"health'. {alert}",
        f"{clients('unknown') if mode is None else in_mode('unknown', mode)}\nor\n{_NONE}",
        "none",
        nothing="no verdicts",
        width=width,
    )


def unhealthy(id_: int, mode: Mode | None = None, width: int = 24, runbooks: str = "") -> Panel:
    """Return a table of the clients that are unhealthy in `mode` (None: in any failure mode), with owner and onset."""
    now = f'max by ({BY_CLIENT}, mode, status) ({_MODE}{{status=~"suspected|confirmed", {_of(mode)}}}) == 1'
    since = f"max by ({BY_CLIENT}, mode) ({_SINCE}{{{_of(mode)}}}) * 1000"
    rows_ = f"(({since}) * on ({BY_CLIENT}, mode) group_right () ({now})\nor\n({now}) * 0)"
    service = listed((*KEPT, "service"))
    owners = f"topk by ({service}) (1, max by ({service}, team) (kafka_client_owner_info{{{OF_SERVICE}}}))"
    owned = f"{rows_}\n* on ({service}) group_left (team)\n{owners}"
    evidence = to_client("overview", "__data.fields")
    return rows(
        id_,
        "Unhealthy now",
        "One row per failing client and failure mode, with the owner of the service and the time since the failure "
        "began. Empty is good, as long as clients report. Click a client id for the evidence, a failure mode for its "
        "runbook, or any other cell for the client's panels. Alert: the failure mode's alert.",
        {"since": (f"{owned}\nor on ({BY_CLIENT}, mode, status)\n{rows_}", "dateTimeFromNow")},
        words={"since": words({0: ("not known", NEUTRAL)})},
        coloured={"status": dict(zip(STATUS_ORDER, STATUS_COLOURS, strict=True))},
        linked={"client_id": evidence[1:], **({"mode": to_runbook(runbooks)} if runbooks else {})},
        hidden=("host", *(("mode",) if mode else ())),
        nothing="No client is unhealthy",
        width=width,
        links=evidence,
    )


def history(id_: int, mode: Mode) -> Panel:
    return timeline(
        id_,
        "Verdict over time",
        f"Status of the clients that are not ok (at most {_BANDS} clients). Yellow is suspected, dark red is "
        "confirmed, grey is not judged. In a gap, the client is ok or has gone. Yellow and dark red are bad. What to "
        f"do: {mode.advice} Alert: the failure mode's alert.",
        Query(_over_time(BY_CLIENT, STATUS_ORDER, f'{_MODE}{{{{status="{{}}", {_of(mode)}}}}}'), LEGEND),
        status_words(),
        nothing="No client was unhealthy",
        links=to_client("overview"),
    )


def failures(id_: int) -> Panel:
    """Return a timeline with a band per service and failure mode."""
    return timeline(
        id_,
        "Failures over time",
        f"The worst status of each service's clients, by failure mode (at most {_BANDS} rows). Yellow is suspected, "
        "dark red confirmed. In a gap, no client failed, or none was judged. What to do: find out what changed when a "
        "band began: a deployment, a broker, a topic. Alert: the failure mode's alert.",
        Query(
            _over_time(
                listed((*KEPT, "service", "mode")),
                ("suspected", "confirmed"),
                f'sgn(kafka_client_service_failure_mode_clients{{{{status="{{}}", {OF_SERVICE}}}}})',
            ),
            f"{{{{service}}}} {NAMED_KEPT}: {{{{mode}}}}",
        ),
        status_words(),
        nothing="No client was unhealthy",
        links=to_service(),
    )


def _over_time(by: str, shown: Sequence[str], of_status: str) -> str:
    """Return a query for the worst status in each group of series. The query returns a position in STATUS_ORDER.

    `by`: labels that are equal for all series of a group.
    """
    parts = [f"{of_status.format(s)} * {STATUS_ORDER.index(s)}" for s in reversed(shown) if s != "ok"]
    return worst("\n  " + "\n  or\n  ".join(parts) + "\n", by, _BANDS)
