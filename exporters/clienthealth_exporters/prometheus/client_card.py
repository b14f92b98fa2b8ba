"""Prepare one client's data for the HTML templates."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

from clienthealth.configuration.installation import runbooks
from clienthealth.configuration.owners import Owner, Owners
from clienthealth.model import wording
from clienthealth.model.clients import Client
from clienthealth.model.health_record import HealthRecord, amount, number
from clienthealth.model.verdicts import Evidence, Verdict
from clienthealth.modes import modes
from clienthealth.modes.advisories import advised
from clienthealth.platform.html_page import rendered, templates
from clienthealth.read.logs.also_seen import BY_ID
from clienthealth.settings import Settings
from clienthealth_exporters.prometheus.history import lag_of
from clienthealth_exporters.prometheus.limits import LIMITS
from clienthealth_exporters.prometheus.states import LAG_ALARMS, SILENT_SECONDS

_PACKAGE = "clienthealth_exporters.prometheus"
MAX_EVIDENCE = 12
DECIDING = 3
MAX_PARTITIONS = 25


@dataclass(frozen=True)
class View:
    """The data that HTML pages need in addition to the clients' states. Times are epoch seconds.

    `trouble`   why records may be missing, else None
    `newest`    time of the newest data of any client; None before the first record
    `left_out`  number of records that were dropped because the exporter keeps at most `max_clients` clients
    """

    settings: Settings
    now: float
    trouble: str | None
    newest: float | None
    left_out: int = 0
    owners: Owners = field(default_factory=Owners)


def page(template: str, **values: Any) -> str:
    """Return the HTML page that a template of this package makes from the values."""
    return rendered(_PACKAGE, template, **values)


def address(client: Client) -> str:
    """Return the address of a client's page. The address is relative, because a proxy may change the path."""
    query = {"service": client.service, "instance": client.instance, "client_id": client.client_id}
    return f"client?{urlencode(query, errors='replace')}"


def owner_of(owners: Owners, client: Client) -> Owner | None:
    """Return the owner of the group if `client` is a group with an owner, else the owner of the client's service."""
    named = owners.of_group(client.group or client.client_id) if client.kind == "group" else None
    return named or owners.owner_of(client.service)


def identity_parts(record: HealthRecord) -> list[str]:
    """Return kind, library with version, host, instance and group, if known."""
    client = record.client
    library = " ".join(part for part in (client.library, client.version) if part)
    host = client.host if client.instance.startswith(client.host) and client.host else ""
    parts = (client.kind, library, client.instance if host else f"{client.host} {client.instance}".strip())
    group = f"group {client.group}" if client.group and client.kind != "group" else ""
    return [part for part in (*parts, group) if part]


def blindness(view: View) -> list[str]:
    """Return the reasons why the page may be incomplete or outdated."""
    found = [view.trouble] if view.trouble else []
    if view.newest is not None and view.now - view.newest > SILENT_SECONDS:
        found.append(
            f"the newest data is from {wording.moment(view.newest, view.now)}, "
            f"{wording.duration(view.now - view.newest)} ago: the monitor has stopped, or gets no data"
        )
    return [reason[:1].upper() + reason[1:] for reason in found]


def since(view: View, verdict: Verdict) -> str:
    """Return the onset of a failure and the failure's duration so far, as text."""
    if (begun := amount(verdict.since_ms)) is None:
        return "since an unknown time"
    return f"since {wording.moment(begun / 1000, view.now)}, for {wording.duration(view.now - begun / 1000)}"


def onset(view: View, record: HealthRecord) -> str:
    """Return the onset of the oldest open failure as text; '' if unknown."""
    begun = [at for verdict in record.verdicts if verdict.unhealthy and (at := amount(verdict.since_ms)) is not None]
    return wording.moment(min(begun) / 1000, view.now) if begun else ""


def facts_of(verdict: Verdict) -> tuple[list[Evidence], list[Evidence]]:
    """Return (deciding facts, other facts). The facts in each list have the order of the evidence.

    At most three facts (DECIDING) are deciding. If possible, the deciding facts are of different kinds, because facts
    of different kinds prove more.
    """
    facts = verdict.evidence
    of_each_kind = {fact.kind: fact for fact in facts}.values()
    first = [*of_each_kind, *(fact for fact in reversed(facts) if fact not in of_each_kind)][:DECIDING]
    return [fact for fact in facts if fact in first], [fact for fact in facts if fact not in first]


def what_is_wrong(record: HealthRecord) -> str:
    """Return the failures' titles and causes. Without failures, return a group's lag state, or '' for a client."""
    titles = []
    for verdict in record.verdicts:
        if verdict.unhealthy:
            mode, cause = modes().get(verdict.mode), verdict.detail.get("cause")
            title = mode.explanation(verdict, record.client.library).title if mode else verdict.mode
            titles.append(f"{title}{f' ({cause})' if cause else ''}")
    return "; ".join(titles) or record.text("group", "status") or ""


def reasons(record: HealthRecord) -> list[str]:
    """Return the distinct reasons why verdicts on the client are `unknown`."""
    return sorted({str(verdict.reason) for verdict in record.verdicts if verdict.reason})


def judged(record: HealthRecord) -> str:
    """Return as text how many failure modes are ok, and which were not judged."""
    fine, blind = others(record)
    return f"nothing found in {len(fine)} of {len(fine) + len(blind)} failure modes; not judged: {', '.join(blind)}"


def others(record: HealthRecord) -> tuple[list[str], list[str]]:
    """Return (ids of modes that are ok, ids of unknown modes with reasons in parentheses)."""
    fine = [v.mode for v in record.verdicts if v.status == "ok"]
    blind = [f"{v.mode} ({v.reason})" if v.reason else v.mode for v in record.verdicts if v.status == "unknown"]
    return fine, blind


def runbook_url(settings: Settings, name: str) -> str:
    """Return the URL of a mode's runbook.

    The URL begins with the setting `[links] runbooks`. If the setting is empty, the runbook is on this server.
    """
    return f"{runbooks(settings.links, status_page='.')}/{quote(name)}"


def plain(value: Any) -> str:
    """Return a value of `Verdict.detail` as text. Strings in a list are joined by commas; other lists become JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ", ".join(value)
    return str(int(value)) if isinstance(value, float) and value.is_integer() else json.dumps(value)


def level(ratio: float) -> str:
    """Return the level (ok, warn or bad) of a buffer or queue. `ratio`: the used share, 0 to 1."""
    return "bad" if ratio >= LIMITS.buffer_full_ratio else "warn" if ratio >= LIMITS.buffer_used_ratio else "ok"


def partition_rows(record: HealthRecord) -> list[tuple[str, str, str, str, str]]:
    """Return (topic-partition, lag state, lag, age of the oldest unread record, member) per partition.

    Partitions with a lag state of WARN or worse come before all other partitions. Apart from that, larger lags come
    first.
    """

    def order(row: Mapping[str, Any]) -> tuple[bool, float]:
        return row.get("state") in LAG_ALARMS, number(row.get("records")) or 0

    rows = []
    for row in sorted(record.rows("lag"), key=order, reverse=True):
        records, seconds, member = amount(row.get("records")), amount(row.get("seconds")), row.get("member")
        lag = "unknown" if records is None else wording.count(records)
        age = "" if seconds is None else wording.duration(seconds)
        client = str(member.get("client_id") or "") if isinstance(member, Mapping) else ""
        rows.append((f"{row['topic']}-{row.get('partition')}", str(row.get("state") or "UNKNOWN"), lag, age, client))
    return rows


@dataclass(frozen=True)
class Measurement:
    """A measurement of a client, as text for a page.

    `value`    the measured value; None if it is unknown, or if the measurement does not apply
    `note`     a further measurement as text, such as the maximum
    `ratio`    the used share (0 to 1) of a buffer or queue; None if the share is unknown; always None for a measurement
               of something else
    `applies`  False if this kind of client does not have the measurement
    """

    name: str
    value: str | None = None
    note: str = ""
    ratio: float | None = None
    applies: bool = True

    @property
    def text(self) -> str:
        """The value, "unknown", or a dash if the measurement does not apply."""
        return self.value or ("unknown" if self.applies else "–")


def measurements(record: HealthRecord) -> list[Measurement]:
    """Return the four measurements (buffer, callback, topic queue, lag), always in this order."""
    kind = record.client.kind
    queues = any(row.get("used_ratio") is not None for row in record.rows("queues"))
    readers: tuple[tuple[str, bool, Callable[[str, HealthRecord], Measurement]], ...] = (
        ("Buffer", kind == "producer", _buffer),
        ("Callback", kind == "producer", _callback),
        ("Topic queue", queues or kind not in ("group", "producer"), _queue),
        ("Lag", kind != "producer", _lag),
    )
    return [read(name, record) if applies else Measurement(name, applies=False) for name, applies, read in readers]


def _buffer(name: str, record: HealthRecord) -> Measurement:
    used, queued = amount(record.value("buffer_used_ratio", "last")), amount(record.value("buffer", "queued_records"))
    if used is None:
        # The buffer of kafka-python 3 has no limit.
        return Measurement(name, None if queued is None else f"{wording.count(queued)} records queued")
    waiting, full = record.value("buffer", "waiting_threads"), record.value("buffer", "seconds_to_full")
    notes = (
        f"{wording.count(waiting)} threads wait" if waiting else "",
        f"full in {wording.duration(full)}" if full else "",
    )
    return Measurement(name, f"{wording.percent(used)} used", _joined(notes), used)


def _callback(name: str, record: HealthRecord) -> Measurement:
    average, longest = amount(record.value("callback_seconds", "avg")), amount(record.value("callback_seconds", "max"))
    busy = amount(record.value("io_thread_busy_ratio"))
    source = record.text("callback_seconds", "source")
    notes = (
        source if source and source != "unknown" else "",
        f"max {wording.latency(longest)}" if longest is not None else "",
        f"I/O thread {wording.percent(busy)} busy" if busy is not None else "",
    )
    return Measurement(name, None if average is None else wording.latency(average), _joined(notes))


def _queue(name: str, record: HealthRecord) -> Measurement:
    ratios = [
        (used, row["topic"]) for row in record.rows("queues") if (used := amount(row.get("used_ratio"))) is not None
    ]
    if ratios:
        used, topic = max(ratios)
        return Measurement(name, f"{wording.percent(used)} full", f"{topic}, fullest of {len(ratios)}", used)
    waiting: dict[str, float] = {}
    for row in record.rows("lag"):
        waiting[row["topic"]] = waiting.get(row["topic"], 0) + (amount(row.get("records")) or 0)
    behind = max(waiting, key=lambda topic: waiting[topic], default="")
    paused = sum(1 for row in record.rows("lag") if row.get("paused") is True)
    idle, poll = record.value("poll_idle_ratio"), amount(record.value("last_poll_age_seconds"))
    notes = (
        f"{behind} furthest behind" if waiting.get(behind) else "",
        f"{wording.count_of(paused, 'partition')} paused" if paused else "",
        f"poll idle {wording.percent(idle)}" if idle is not None else "",
        f"last poll {wording.duration(poll)} ago" if poll is not None else "",
    )
    return Measurement(name, note=_joined(notes))


def _lag(name: str, record: HealthRecord) -> Measurement:
    if (total := lag_of(record)) is None:
        return Measurement(name)
    known = sum(amount(row.get("records")) is not None for row in record.rows("lag"))
    ages = [age for row in record.rows("lag") if (age := amount(row.get("seconds"))) is not None]
    notes = (
        record.text("group", "status") or "",
        f"oldest {wording.duration(max(ages))}" if ages else "",
        wording.count_of(known, "partition"),
    )
    return Measurement(name, f"{wording.count(total)} records", _joined(notes))


def _joined(notes: Iterable[str]) -> str:
    return ", ".join(note for note in notes if note)


_NAMED = {name: value for name, value in globals().items() if not name.startswith("_")}
_NAMED |= {name.lower(): globals()[name] for name in ("MAX_EVIDENCE", "MAX_PARTITIONS")}
templates(_PACKAGE).globals.update({**_NAMED, "advised": advised, "modes": modes(), "troubles": BY_ID})
