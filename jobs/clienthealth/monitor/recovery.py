"""Decide when an incident is over.

If the client reports, `LiveMode.recovered` or the absence of symptoms decides. If the client does not report, an
incident closes when data proves that the client ended, or a fixed time after the client's last data. The fixed time is
GONE_MS if the client never reported, or if the mode has `Facts.logs_on`. Otherwise the fixed time is
`[absence] shown_seconds`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from functools import cache

from clienthealth.measure.client_window import ClientWindow
from clienthealth.model.verdicts import Status, Verdict
from clienthealth.modes import MIN_READINGS, LiveMode, Mode, modes
from clienthealth.monitor.adjust import explains
from clienthealth.monitor.bucket import Bucket
from clienthealth.monitor.incidents import Change, Incidents, Transition

#: Even if a mode's `recovered` returns False, a failure is over after NO_SYMPTOM_MS without a symptom.
NO_SYMPTOM_MS = 600_000
#: If a mode's `recovered` returns True, a failure is over at the latest CALM_MS after the last window that showed it.
CALM_MS = 60_000
GONE_MS = 180_000


def shows(mode: Mode, window: ClientWindow) -> bool:
    """Return True if a log line in the window is a symptom of the failure mode."""
    return any(event.signature in mode.symptoms for event in window.logs)


def is_over(
    incidents: Incidents,
    key: str,
    window: Callable[[], ClientWindow],
    before: Callable[[], ClientWindow],
    in_force: Mapping[str, Mode],
    end_ms: int,
) -> Callable[[str], bool]:
    """Return a function that takes the id of a mode, and returns True if the client's incident of this mode is over.

    `window`: returns the client's newest window, which ends at `end_ms`. `before`: returns the window before the newest
    one. It shows a recovery if the newest window has fewer than MIN_READINGS samples. `in_force`: all modes by id, with
    the thresholds of the settings.
    """

    def over(mode_id: str) -> bool:
        mode, incident, newest = in_force[mode_id], incidents.of_client(key)[mode_id], window()
        recovered = mode.recovered if isinstance(mode, LiveMode) else None
        several = next((w for at in (window, before) if len((w := at()).readings) >= MIN_READINGS), newest)
        if recovered is not None and recovered(several, mode.thresholds):
            ends = [meaning for meaning in mode.lines if meaning.relief]
            ended = any(event in meaning for meaning in ends for event in newest.logs)
            return ended or newest.newest_ms - incident.seen_ms >= CALM_MS
        symptom = shows(mode, newest)
        return not symptom and (recovered is None or end_ms - incident.seen_ms - incident.forgiven_ms > NO_SYMPTOM_MS)

    return over


def refresh(
    incidents: Incidents, key: str, verdicts: list[Verdict], window: Callable[[], ClientWindow], end_ms: int
) -> None:
    """Prolong each open incident of a client if the window shows a symptom of the incident's mode.

    `window`: returns the client's window that ends at `end_ms`. `verdicts`: the verdicts on this window.
    """
    for verdict in verdicts:
        goes_on = verdict.mode in incidents.of_client(key) and not verdict.unhealthy
        if goes_on and shows(modes()[verdict.mode], window()):
            incidents.seen(key, verdict.mode, end_ms)


def without_explained(incidents: Incidents, key: str, end_ms: int) -> list[Transition]:
    """Close each incident that another incident of the same client explains, and return the changes.

    A suspected incident cannot explain a confirmed one.
    """
    found = [*incidents.of_client(key).values()]
    by = [(one.verdict.mode, one.verdict.status) for one in found]
    explained = [one for one in found if any(explains(*other, one.verdict) for other in by)]
    changes: Mapping[Status, Change] = {"suspected": "withdrawn", "confirmed": "closed"}
    return [incidents.close(one, changes[one.verdict.status], end_ms) for one in explained]


def expired(bucket: Bucket, ended: Set[str]) -> list[Transition]:
    """Close the open incidents of clients that are gone, and return the changes.

    An incident ends at the last data of the client or its process, if known. `ended`: keys of clients with a proved
    end.
    """
    state, shown_ms = bucket.state, 1000 * bucket.settings.absence.shown_seconds
    living = cache(lambda: {(ref.service, ref.instance, ref.client_id) for ref in state.all_clients})
    changes: list[Transition] = []
    for incident in [*state.incidents.all]:
        client, mode = incident.client, modes()[incident.verdict.mode]
        now_ms = state.time_ms - incident.offset_ms
        if mode.absence:
            is_gone, end_ms = now_ms - incident.seen_ms > shown_ms, now_ms
        else:
            heard_ms, reported = incident.heard_ms or incident.seen_ms, incident.departed_ms and not mode.logs_on
            silent = client.key in ended or now_ms - heard_ms > (shown_ms if reported else GONE_MS)
            is_gone = silent and (client.service, client.instance, client.client_id) not in living()
            end_ms = incident.heard_ms or now_ms
        if is_gone:
            changes.append(state.incidents.close(incident, "closed", end_ms))
    return changes
