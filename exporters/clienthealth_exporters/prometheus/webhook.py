"""Send a CloudEvent to a webhook when a client's failure begins, changes or ends.

If several exporters send the same change, their events have the same id.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import json
import logging
import threading
import time
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from clienthealth.model.health_record import client_json, evidence_json
from clienthealth.platform.secrecy import redacted, secret_in
from clienthealth.settings import Settings
from clienthealth_exporters.prometheus.client_card import address
from clienthealth_exporters.prometheus.states import State

log = logging.getLogger(__name__)

#: Maximum numbers: events in the queue, facts in an event, characters in a fact.
MAX_WAITING, MAX_FACTS, MAX_TEXT = 1_000, 5, 500
#: Pauses (s) after failed attempts, and the maximum age (s) of an event.
PAUSES, GIVE_UP_SECONDS = (1.0, 2.0, 5.0, 15.0, 60.0), 3_600.0
ANSWER_SECONDS = 10.0
#: HTTP statuses below 500 after which the event is sent again.
LATER = frozenset({408, 425, 429})
WARNING_SECONDS = 60.0
TYPES = {(False, True): "opened", (True, True): "changed", (True, False): "closed"}


class Webhook:
    """Sends events about clients' failures from its own thread, until `close` is called.

    `trouble`: returns why records may be missing, or None if all records have been read. `note` ignores all changes
    until `trouble` first returns None.

    Raises SettingsError if the file with the webhook's secret cannot be read.
    """

    def __init__(
        self, settings: Settings, trouble: Callable[[], str | None], pauses: tuple[float, ...] = PAUSES
    ) -> None:
        self._url = settings.prometheus.incident_webhook
        secret = secret_in(settings.prometheus.incident_webhook_secret_file, "incident_webhook_secret_file")
        encoded = secret.startswith("whsec_")
        self._secret = base64.b64decode(secret.removeprefix("whsec_")) if encoded else secret.encode()
        self._source = f"/kafka-client-health/{settings.monitor.cluster or settings.prometheus.cluster_name}"
        self._pages = settings.links.status_page.rstrip("/")
        self._trouble, self._pauses = trouble, pauses
        self._begun = False
        self._waiting: deque[tuple[float, Mapping[str, Any]]] = deque()
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self._warned = 0.0
        self.sent_total = self.dropped_total = 0
        self._opener = urllib.request.build_opener(_NoRedirect)
        self._thread = threading.Thread(target=self._run, name="incident webhook", daemon=True)
        self._thread.start()

    def note(self, before: State | None, after: State | None) -> None:
        """Queue the events for a change from state `before` to `after` (None: no state)."""
        self._begun = self._begun or self._trouble() is None
        if not self._begun:
            return
        with self._changed:
            for event in self._events(before, after):
                if len(self._waiting) >= MAX_WAITING:
                    self._waiting.popleft()
                    self._dropped("too many events wait")
                self._waiting.append((time.monotonic(), event))
            self._changed.notify_all()

    def close(self, seconds: float = 5.0) -> None:
        """Wait at most `seconds` until all queued events are sent. Then end the thread."""
        until = time.monotonic() + seconds
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting, max(0.0, until - time.monotonic()))
        self._closing.set()
        with self._changed:
            self._changed.notify_all()
        self._thread.join(max(0.0, until - time.monotonic()))

    def _events(self, before: State | None, after: State | None) -> Iterator[Mapping[str, Any]]:
        """Yield an event for each failure that begins, changes or ends. A status `unknown` ends a failure, too."""
        was, now = ({mode: status for mode, status, _ in one.failures} if one else {} for one in (before, after))
        state = after or before
        changed = [mode for mode in sorted(was | now) if was.get(mode) != now.get(mode)]
        if state is None or not changed:
            return
        failing = {verdict.mode: verdict for verdict in state.record.verdicts if verdict.mode in now}
        for mode in changed:
            verdict = failing.get(mode)
            facts = map(evidence_json, verdict.evidence[:MAX_FACTS] if verdict else ())
            same = json.dumps([state.key, mode, was.get(mode), now.get(mode), state.window_end])
            yield {
                "specversion": "1.0",
                "id": hashlib.sha256(same.encode()).hexdigest()[:32],
                "source": self._source,
                "type": f"kafka-client-health.incident.{TYPES[mode in was, mode in now]}.v1",
                "subject": state.key,
                "time": datetime.fromtimestamp(state.written, UTC).isoformat().replace("+00:00", "Z"),
                "datacontenttype": "application/json",
                "data": {
                    "client": client_json(state.client),
                    "mode": mode,
                    "status": now.get(mode),
                    "was": was.get(mode),
                    "since": verdict.since_ms if verdict else None,
                    "cause": verdict.detail.get("cause") if verdict else None,
                    "evidence": [{**fact, "text": redacted(fact["text"])[:MAX_TEXT]} for fact in facts],
                    "page": f"{self._pages}/{address(state.client)}" if self._pages else None,
                },
            }

    def _run(self) -> None:
        failed = 0
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._waiting) or self._closing.is_set())
                if not self._waiting:
                    return
                noted, event = self._waiting[0]
            done = self._sent(event)
            with self._changed:
                if not done and time.monotonic() - noted > GIVE_UP_SECONDS:
                    self._dropped("the receiver did not accept the event within an hour")
                    done = True
                # While the event was being sent, `note` may have dropped the event from a full queue. The oldest event
                # is then another event, which must stay.
                if done and self._waiting and self._waiting[0][1] is event:
                    self._waiting.popleft()
                    self._changed.notify_all()
            failed = 0 if done else failed + 1
            if failed and self._closing.wait(self._pauses[min(failed, len(self._pauses)) - 1]):
                return

    def _sent(self, event: Mapping[str, Any]) -> bool:
        """Send the event. Return False if the event must be sent again, else True."""
        body, stamp = json.dumps(event, ensure_ascii=False).encode(errors="replace"), str(int(time.time()))
        headers = {
            "Content-Type": "application/cloudevents+json; charset=utf-8",
            "User-Agent": f"kafka-client-health/{version('kafka-client-health')}",
            "webhook-id": event["id"],
            "webhook-timestamp": stamp,
        }
        if self._secret:
            signed = hmac.new(self._secret, f"{event['id']}.{stamp}.".encode() + body, hashlib.sha256).digest()
            headers["webhook-signature"] = f"v1,{base64.b64encode(signed).decode()}"
        try:
            with self._opener.open(urllib.request.Request(self._url, body, headers), timeout=ANSWER_SECONDS):
                self.sent_total += 1
                return True
        except urllib.error.HTTPError as error:
            error.close()
            if error.code < 500 and error.code not in LATER:
                self._dropped(f"the receiver refused the event with {error.code}")
                return True
            self._complain(f"the receiver answers {error.code}")
        except (OSError, http.client.HTTPException, ValueError) as error:
            self._complain(f"the receiver does not answer: {error}")
        return False

    def _dropped(self, why: str) -> None:
        self.dropped_total += 1
        self._complain(f"{self.dropped_total} event(s) were dropped: {why}")

    def _complain(self, what: str) -> None:
        if time.monotonic() - self._warned >= WARNING_SECONDS or not self._warned:
            self._warned = time.monotonic()
            log.warning("incident webhook: %s", redacted(what))


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Refuses redirects, because urllib would follow them with a GET request, which does not contain the event."""

    def redirect_request(self, *_: Any) -> None:
        return None
