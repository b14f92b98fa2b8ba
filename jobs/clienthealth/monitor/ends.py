"""Find proof that a client without data has ended, or that its process still runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from clienthealth.measure.packed import LogEntry
from clienthealth.model.clients import Client
from clienthealth.model.metrics import TERMINATING
from clienthealth.model.readings import LogEvent, Reading, Sign
from clienthealth.modes._polls import reports_in_poll
from clienthealth.monitor.attribution import lifecycle_lines, owner
from clienthealth.monitor.bucket import Bucket
from clienthealth.monitor.process_log import EVER, OVERDUE, START_MS, telling
from clienthealth.monitor.state import Life
from clienthealth.read.logs.self_descriptions import CONFIG_LOGGED


class Silence(NamedTuple):
    """A client that stopped sending data. `first_ms`, `last_ms`: times of its first and last sample (epoch ms).

    `every_ms`: its reporting interval. `gap_ms`: time without data after which a client has departed.
    """

    client: Client
    first_ms: float
    last_ms: float
    every_ms: float
    gap_ms: float

    @property
    def settled_ms(self) -> float:
        """Time (epoch ms) up to which a logged start belongs to this client, not to a successor.

        The result is at least START_MS (5 s) after the first sample, because a client may send samples while it starts.
        """
        return max(self.last_ms, self.first_ms + START_MS)


def shutdown_lines(bucket: Bucket, silent: Silence) -> tuple[tuple[LogEvent, ...], Sequence[LogEntry]]:
    """Return (log lines about a silent client's start and end, log entries that prove that its process still runs)."""
    client = silent.client
    all_lines = lifecycle_lines(bucket.state, client, bucket.alone(client))
    logs = _of_its_end(all_lines, bucket.lives[client.process], silent)
    ends = [event.ts_ms for event in logs if event.signature in telling("loses")]
    since = max([silent.last_ms, *ends]) + OVERDUE * silent.every_ms
    later = [entry for entry in bucket.log_entries[client.process] if entry.ts_ms > since]
    if ends:
        # A process may log after its client's end, so only lines with the client's id show that the client still runs.
        later = [entry for entry in later if entry.event is not None and entry.event.client_id == client.client_id]
    return logs, [entry for entry in later if _goes_on(bucket, entry, silent)]


def _goes_on(bucket: Bucket, entry: LogEntry, silent: Silence) -> bool:
    event, client = entry.event, silent.client
    lives = bucket.lives[client.process]
    name = event.client_id if event is not None else None
    about_life = event is not None and event.signature in telling() | CONFIG_LOGGED
    if about_life or owner(entry.instance, entry.ts_ms, client, lives, name) != "mine":
        return False
    named = name == client.client_id or (bool(entry.instance) and entry.instance == client.instance)
    if not named and any(life.at(entry.ts_ms) for life in lives if life.client.instance != client.instance):
        return False
    later = (start for start in bucket.starts[client.process] if start.ts_ms > silent.settled_ms)
    counting = (start.ts_ms for start in later if not named or start.client_id == client.client_id)
    return entry.ts_ms < min(counting, default=EVER)


def _of_its_end(
    all_lines: Sequence[tuple[str, LogEvent]], lives: Sequence[Life], silent: Silence
) -> tuple[LogEvent, ...]:
    """Return a client's log lines about its start and end, in order of time.

    `all_lines`: the result of `lifecycle_lines`, which may contain lines of another client with the same id.
    """
    client, last = silent.client, silent.last_ms
    own = any(instance == client.instance for instance, _ in all_lines)
    elsewhere = [life for life in lives if life.client.instance != client.instance]
    foreign = {life.client.instance for life in elsewhere}
    begin, close, lose = telling("begins"), telling("closes", "closed"), telling("loses")
    fitting = [(i, event) for i, event in all_lines if i in ("", client.instance) or not (own or i in foreign)]
    own_lines = [(instance == client.instance, event) for instance, event in fitting]
    rivals = [life for life in elsewhere if life.client.client_id == client.client_id]
    begins = [event.ts_ms for _, event in own_lines if event.signature in begin]
    begun = max((ts - START_MS for ts in begins if ts <= silent.settled_ms), default=None)
    later = min((ts for ts in begins if ts > silent.settled_ms), default=EVER)
    closes = [event.ts_ms for _, event in own_lines if event.signature in close and event.ts_ms >= (begun or 0)]
    # `unsure`: all log lines about a close were written after another client with the same id had started, and may be
    # about the other client.
    unsure = any(ts >= later for ts in closes) and not any(ts < later for ts in closes)

    def alone(ts_ms: float) -> bool:
        return not any(life.at(ts_ms) for life in rivals)

    unclear = any(e.signature in lose and e.ts_ms >= last and not (named or alone(e.ts_ms)) for named, e in own_lines)

    def counts(named: bool, event: LogEvent) -> bool:
        ts_ms, signature = event.ts_ms, event.signature
        if signature in begin:
            return (begun or 0) <= ts_ms <= last and (named or (alone(last) and not unsure))
        if signature in close:
            since = silent.first_ms - silent.gap_ms if begun is None else begun
            return since <= ts_ms < later and (named or not unclear)
        if signature in lose:
            since = last - OVERDUE * silent.every_ms
            return since <= ts_ms < later and (named or alone(ts_ms))
        # If a kill was logged more than START_MS (5 s) before the client's last sample, another process was killed.
        return last - START_MS <= ts_ms < later and (named or alone(ts_ms))

    return tuple(sorted((event for named, event in own_lines if counts(named, event)), key=lambda event: event.ts_ms))


def has_ended(bucket: Bucket, client: Client, departed_ms: int, alone: bool) -> bool:
    """Return True if a client without data is known to have ended.

    One of two facts proves the end:
    - The log has a line about the client's close or kill.
    - A client of the same name on the same host sent its first sample after the last sample of `client`.

    `departed_ms`: time of the client's last sample. `alone`: False if another client of the same name was on the host
    at this time. If `alone` is False, only a log line with the client's instance proves the end.
    """
    others = [life for life in bucket.lives[client.process] if life.client.instance != client.instance]
    foreign = {life.client.instance for life in others}
    beside = [bucket.state.all_clients[at] for at in bucket.numbers.get(client.process, ())]
    single = not any(other.kind == client.kind and other.identity != client.identity for other in beside)
    if alone and any(life.first_ms > departed_ms for life in namesakes(bucket, client)):
        return True
    for instance, event in lifecycle_lines(bucket.state, client, single):
        if event.signature in telling("closed", "is killed") and event.ts_ms >= departed_ms - START_MS:
            named = event.client_id or not any(life.at(event.ts_ms) for life in others)
            if instance == client.instance or (alone and instance not in foreign and named):
                return True
    return False


def namesakes(bucket: Bucket, client: Client) -> Sequence[Life]:
    """Return the lifetimes of clients in other processes on the host, with the same name and kind as `client`."""
    elsewhere = (life for life in bucket.lives[client.process] if life.client.instance != client.instance)
    return [life for life in elsewhere if life.client.client_id == client.client_id and life.client.kind == client.kind]


def is_by_process(bucket: Bucket, entry: LogEntry, client: Client, departed_ms: int) -> bool:
    """Return True if a log entry comes from the process of `client`, a client that sends no metrics.

    `departed_ms`: time of the client's last sample; 0 if it never sent metrics.
    """
    if departed_ms:
        return _goes_on(bucket, entry, Silence(client, departed_ms, departed_ms, 0, 0))
    name = entry.event.client_id if entry.event is not None else None
    return owner(entry.instance, entry.ts_ms, client, bucket.lives[client.process], name) == "mine"


def clients_beside(bucket: Bucket, client: Client, key: str) -> Sequence[int]:
    """Return the reporting clients that prove that the process of the silent `client` still runs.

    Clients are given as indices in `state.all_clients`. If the silent client's library reports only inside poll(), each
    reporting client of the same instance proves that the process runs. If the library also reports outside poll(), a
    reporting client of the process proves that the process runs, under three conditions. First, an open incident of the
    silent client states when the silence began. Second, the reporting client had reported before the silence began.
    Third, no reporting client of the process has the silent client's id.
    """
    state, others = bucket.state, bucket.numbers.get(client.process, ())
    if reports_in_poll(client.library):
        same = [at for at in others if state.all_clients[at].instance == client.instance]
        return [at for at in same if state.all_clients[at].identity != client.identity]
    verdicts = state.incidents.verdicts(key).values()
    silent = [v.since_ms or 0 for v in verdicts if any(fact.kind == "absence" for fact in v.evidence)]
    if not silent or any(state.all_clients[at].client_id == client.client_id for at in others):
        return []
    return [at for at in others if state.clients.first[at] < min(silent)]


def signs_of_life(bucket: Bucket, number: int, later: Sequence[LogEntry]) -> tuple[Sign, ...]:
    """Return signs, in order of time, that the process of a silent client still runs.

    A sign is a log line, a thread dump, or a sample of another client of the instance. At most one sign of each kind is
    returned. `later`: the process's log entries after the client's last sample.
    """
    state = bucket.state
    client, signs = state.all_clients[number], dict[str, Sign]()
    after_ms = float(state.clients.last[number] + bucket.quiet[number])
    for entry in later:
        if entry.ts_ms <= after_ms:
            continue
        if entry.event is not None:
            signs["log"] = Sign("log", entry.ts_ms, "a line in the log of the client's process", entry.event.source)
        elif entry.dump is not None:
            signs["thread-dump"] = Sign("thread-dump", entry.ts_ms, "a dump of the client's process", entry.dump.source)
    for other in bucket.numbers.get(client.process, ()):
        beside = state.all_clients[other]
        if other == number or beside.instance != client.instance:
            continue
        last = int(state.clients.last[other])
        if last > max(after_ms, signs["metric"].ts_ms if "metric" in signs else 0):
            text = f"a sample of '{beside.client_id}' in the same process"
            signs["metric"] = Sign("metric", last, text, state.newest(other))
    return tuple(sorted(signs.values(), key=lambda sign: sign.ts_ms))


def pushed_beside(bucket: Bucket, number: int, readings: Sequence[Reading]) -> tuple[Sign, ...]:
    """Return a sign of life for a client that stopped pushing: a push of another client at the same address.

    A push does not name its process. If the process had ended, all clients of the process would have stopped pushing.
    So if any other client at the address has stopped pushing, no sign is returned. No sign is returned either if
    another client at the address is new, or has the silent client's id, because such a client may belong to another
    process.
    """
    state, clients = bucket.state, bucket.state.clients
    client, last = state.all_clients[number], int(clients.last[number])
    if not readings or readings[-1].get(TERMINATING) is None:
        return ()
    until_ms = last + OVERDUE * int(clients.every[number])
    others = [at for at in bucket.numbers.get(client.process, ()) if at != number]
    gone = any(key[:2] == client.process and life.until_ms > last for key, life in state.gone.items())
    go_on = all(clients.first[at] <= last and clients.last[at] > until_ms for at in others)
    if gone or not others or not go_on or any(state.all_clients[at].client_id == client.client_id for at in others):
        return ()
    newest = max(others, key=lambda at: int(clients.last[at]))
    text = f"a push of '{state.all_clients[newest].client_id}' from the same address"
    return (Sign("metric", int(clients.last[newest]), text, state.newest(newest)),)
