"""Encode and decode a client's state and verdicts, for records of the topic `client-health` and for the history.

Writers fill in `Written`; readers get a `HealthRecord`. Readers must expect that a number is missing, NaN or a text.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from sys import intern
from typing import Any

import msgspec

from clienthealth.model.clients import Client
from clienthealth.model.errors import RecordError
from clienthealth.model.readings import Source
from clienthealth.model.verdicts import STATUS_ORDER, Evidence, Seen, Standing, Status, Verdict, standing

#: The schema number rises when old readers would misread new records.
SCHEMA = 1
_CLIENT_FIELDS = Client.__struct_fields__
_NEVER_NONE = ("service", "host", "client_id")
_MAX_OFFSET = 2**63


def client_json(client: Client) -> dict[str, Any]:
    """Return all fields of `Client` as a JSON object, without the fields that are None."""
    return {key: value for key, value in msgspec.structs.asdict(client).items() if value is not None}


@functools.lru_cache(maxsize=100_000)
def encoded(client: Client) -> msgspec.Raw:
    """Return the fields of a client as encoded JSON, without the fields that are None."""
    return msgspec.Raw(_encode(client_json(client)))


def verdicts_json(verdicts: Iterable[Verdict]) -> msgspec.Raw:
    """Return an array of verdicts (`verdict_json`) as encoded JSON."""
    return msgspec.Raw(_encode([verdict_json(verdict) for verdict in verdicts]))


def evidence_json(evidence: Evidence) -> dict[str, Any]:
    """Return one piece of evidence as a JSON object; `source` is its input record, None if unknown."""
    source = None if evidence.source is None else dataclasses.asdict(evidence.source)
    return {"kind": evidence.kind, "ts": evidence.ts_ms, "text": evidence.text, "source": source}


def verdict_json(verdict: Verdict) -> dict[str, Any]:
    """Return a verdict as a JSON object.

    `mode` and `status` are always written. A failure also has `since`, `detail` and `evidence`. `ruled_out` and
    `not_ruled_out` of a failure are written if they are not empty. Without a failure, `detail` is written if it is not
    empty. With or without a failure, `reason` and `adjusted` are written if they are not empty. `counts` and `proofs`
    are never written.
    """
    fields: dict[str, Any] = {"mode": verdict.mode, "status": verdict.status}
    if verdict.unhealthy:
        fields |= {
            "since": verdict.since_ms,
            "detail": dict(verdict.detail),
            "evidence": [evidence_json(e) for e in verdict.evidence],
        }
        rulings = {"ruled_out": list(verdict.ruled_out), "not_ruled_out": list(verdict.not_ruled_out)}
        fields |= {name: texts for name, texts in rulings.items() if texts}
    elif verdict.detail:
        fields["detail"] = dict(verdict.detail)
    if verdict.reason is not None:
        fields["reason"] = verdict.reason
    if verdict.adjusted:
        fields["adjusted"] = list(verdict.adjusted)
    return fields


def verdict_from_json(row: Mapping[str, Any]) -> Verdict:
    """Return a verdict from the JSON of `verdict_json`. Raises KeyError or TypeError if a field is missing."""
    if len(row) == 2:
        return _bare(row["mode"], row["status"])
    return Verdict(
        mode=row["mode"],
        status=row["status"],
        since_ms=row.get("since"),
        detail=row.get("detail") or {},
        evidence=tuple(evidence_from_json(e) for e in row.get("evidence") or ()),
        reason=row.get("reason"),
        adjusted=tuple(row.get("adjusted") or ()),
        ruled_out=tuple(row.get("ruled_out") or ()),
        not_ruled_out=tuple(row.get("not_ruled_out") or ()),
    )


@functools.lru_cache(maxsize=1_000)
def _bare(mode: str, status: Status) -> Verdict:
    return Verdict(mode, status)


def evidence_from_json(row: Mapping[str, Any]) -> Evidence:
    """Return evidence from the JSON of `evidence_json`. Raises KeyError or TypeError if a field is missing."""
    source = row.get("source")
    return Evidence(row["kind"], row["ts"], row["text"], None if source is None else Source(**source))


def seen_json(seen: Seen) -> dict[str, Any]:
    """Return a known issue as a JSON object.

    `first`, `last`: times (epoch ms) of the first and the last log line that show the issue.
    """
    return dict(msgspec.to_builtins(seen))


def worst(verdicts: Iterable[Verdict]) -> Status:
    """Return the status of the worst failure. Without a failure: `ok` if all verdicts are ok, else `unknown`."""
    of_all = standing(verdict.status for verdict in verdicts)
    return "unknown" if of_all == "partial" else of_all


class Written(msgspec.Struct, kw_only=True, omit_defaults=True, tag_field="schema", tag=SCHEMA):
    """A record of the topic `client-health`, to be written. Times are in epoch milliseconds.

    `client`, `verdicts`  already encoded as JSON, by the functions `encoded` and `verdicts_json`
    `window_*`        start and end of the judged window; for a consumer group, the window in which its lag was measured
    `samples`    number of the client's samples in the window
    `worst`      the worst status of the client's modes (function `worst`). For a group, `ok` while the lag
                 state is OK or IDLE, else `unknown`
    `last_seen`  time of the client's newest data
    `departed`   True if the client is gone
    `config`     the client's options
    `also_seen`  the client's known issues, as JSON objects (function `seen_json`)
    """

    window_start: int
    window_end: int
    client: msgspec.Raw
    samples: int
    indicators: Mapping[str, Any]
    verdicts: msgspec.Raw
    worst: str
    last_seen: int
    departed: bool = False
    config: Mapping[str, str] = {}
    also_seen: list[dict[str, Any]] = []

    def encode(self) -> bytes:
        """Return the JSON of this record, as the value of a Kafka record."""
        return _encode(self)


_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class HealthRecord:
    """The newest state of a client, from a record of `client-health`. Times are in epoch milliseconds.

    Unknown indicators are absent. `seen_ms`: time of the client's newest data. `stale`: True if the function `aged`
    made this record, because the client's next record was overdue.
    """

    client: Client
    window_start: int
    window_end: int
    seen_ms: int
    departed: bool
    samples: int
    worst: Status
    verdicts: tuple[Verdict, ...]
    indicators: Mapping[str, Any]
    stale: bool = False
    config: Mapping[str, str] = dataclasses.field(default_factory=dict)
    also_seen: tuple[Seen, ...] = ()

    @property
    def standing(self) -> Standing:
        """The client's overall state: `partial` if some failure modes are `ok` and the rest unknown, else `worst`."""
        partly = self.worst == "unknown" and any(verdict.status == "ok" for verdict in self.verdicts)
        return "partial" if partly else self.worst

    def value(self, *path: str) -> float | None:
        """Return the number at a path of nested names in `indicators`; None if unknown."""
        return number(self._at(path))

    def text(self, *path: str) -> str | None:
        """Return the text at a path of nested names in `indicators`; None if unknown."""
        value = self._at(path)
        return value if isinstance(value, str) else None

    def rows(self, name: str) -> Iterator[Mapping[str, Any]]:
        """Yield the entries of the list indicator `name`, such as `lag`. Entries without a topic are left out."""
        entries = self.indicators.get(name)
        for row in entries if isinstance(entries, list) else ():
            if isinstance(row, dict) and isinstance(row.get("topic"), str):
                yield row

    def _at(self, path: tuple[str, ...]) -> Any:
        value: Any = self.indicators
        for name in path:
            # `isinstance(value, Mapping)` would take ten times as long as this check.
            if not isinstance(value, dict):
                return None
            value = value.get(name)
        return value


def number(value: Any) -> float | None:
    """Return a number with an absolute value below 2⁶³; None for anything else, also for NaN and infinity."""
    if type(value) is not float and type(value) is not int:
        return None
    return value if -_MAX_OFFSET < value < _MAX_OFFSET else None


def amount(value: Any) -> float | None:
    """Return a non-negative number (a lag, an offset, an age), None for anything else."""
    known = number(value)
    return known if known is not None and known >= 0 else None


def decode(value: bytes, written_ms: int = -1) -> HealthRecord:
    """Decode a record. `written_ms`: Kafka's timestamp of the record, negative if there is none.

    Raises RecordError if the bytes are not a health record, or if the record's schema is newer than this program.
    """
    try:
        row = document(value)
        schema = row.get("schema", SCHEMA)
        if type(schema) is not int or schema > SCHEMA:
            raise RecordError(f"schema {schema!r:.20} is not known: this program reads up to schema {SCHEMA}")
        client = _client(row["client"])
        verdicts = tuple([verdict_from_json(verdict) for verdict in row.get("verdicts") or ()])
        _checked(verdicts)
        indicators = row.get("indicators") or {}
        window_end = row["window_end"]
        if not isinstance(indicators, dict) or amount(window_end) is None:
            raise TypeError("indicators is not a JSON object, or window_end is not a time")
        worst = row.get("worst")
        if worst == "ok" and any(verdict.status == "unknown" for verdict in verdicts):
            # In releases up to 0.2, failure modes that could not be judged had no influence on `worst`.
            worst = "unknown"
        at_latest = min(int(window_end), written_ms) if written_ms > 0 else int(window_end)
        return HealthRecord(
            client=client,
            window_start=int(amount(row.get("window_start")) or window_end),
            window_end=int(window_end),
            seen_ms=int(amount(row.get("last_seen")) or at_latest),
            departed=row.get("departed") is True,
            samples=int(amount(row.get("samples")) or 0),
            worst=worst if worst in STATUS_ORDER else "unknown",
            verdicts=verdicts,
            indicators=indicators,
            stale=row.get("stale") is True,
            config=_config(row.get("config")),
            also_seen=msgspec.convert(row.get("also_seen") or (), tuple[Seen, ...]),
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise RecordError(f"{type(error).__name__}: {error}") from error


_NO_CONFIG: Mapping[str, str] = {}


def _config(row: Any) -> Mapping[str, str]:
    if not row:
        return _NO_CONFIG
    if type(row) is not dict:
        raise TypeError("config is not a JSON object")
    return {intern(name): intern(value) for name, value in row.items() if type(value) is str}


def document(value: bytes) -> Any:
    """Parse the JSON of a record. NaN and Infinity become None. Raises ValueError if `value` is not JSON."""
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return json.loads(value, parse_constant=lambda _: None)


def strict(value: bytes) -> bytes:
    """Return a record's JSON with null in place of NaN and Infinity, which strict JSON parsers reject."""
    odd = b"NaN" in value or b"Infinity" in value
    return msgspec.json.encode(document(value)) if odd else value


def aged(value: bytes, reason: str) -> bytes:
    """Return a silent client's last record without the statements that may no longer be true.

    Each `ok` verdict becomes `unknown` with the given `reason`, and the indicators are removed. Failures stay.
    """
    row = document(value)
    verdicts = [
        {**verdict, "status": "unknown", "reason": reason} if verdict["status"] == "ok" else verdict
        for verdict in row.get("verdicts") or ()
    ]
    worst = "unknown" if row.get("worst") == "ok" else row.get("worst")
    return msgspec.json.encode({**row, "verdicts": verdicts, "worst": worst, "indicators": {}, "stale": True})


def _client(row: Mapping[str, Any]) -> Client:
    fields: dict[str, Any] = {name: row.get(name) for name in _CLIENT_FIELDS}
    for name, value in fields.items():
        if value is None:
            fields[name] = "" if name in _NEVER_NONE else None
        elif type(value) is str:
            fields[name] = intern(value)
        else:
            raise TypeError(f"client: {name} is not a string")
    if fields["instance"] is None:
        raise TypeError("client: instance is missing")
    return Client(**fields)


def _checked(verdicts: tuple[Verdict, ...]) -> None:
    for verdict in verdicts:
        if type(verdict.mode) is not str or verdict.status not in STATUS_ORDER:
            raise TypeError("verdicts: mode is not a string, or status is not a known status")
        if not isinstance(verdict.detail, dict):
            raise TypeError("verdicts: detail is not a JSON object")
