"""`kafka-health export prometheus`: serve metrics, JSON and a status page.

/                     status page for people
/client               one client (service, instance, client_id)
/fleet                services' health per hour, versions, gone clients
/runbooks/            what to do about each alert
/metrics              Prometheus text format
/clients.json         every client's newest record
/api/v1/              the API for programs
/api/v1/openapi.json  the API's definition
/readyz, /healthz     200 if all records of the topic `client-health` have been read
/livez                200 if this topic was polled within the last STUCK_SECONDS
"""

from __future__ import annotations

import argparse
import itertools
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus

from clienthealth.configuration.installation import RUNBOOKS, own_page, place
from clienthealth.configuration.owners import Owners, read_owners
from clienthealth.model import wording
from clienthealth.model.clients import Client
from clienthealth.platform import html_page
from clienthealth.platform.locations import Reread
from clienthealth.platform.stopping import stop_event
from clienthealth.platform.web import Request, Response, Server, probe
from clienthealth.settings import Settings
from clienthealth_exporters.prometheus import api, exposition, services, status_page
from clienthealth_exporters.prometheus.client_card import address
from clienthealth_exporters.prometheus.filters import Facets, Filters, facets
from clienthealth_exporters.prometheus.health_topic import HealthTopic
from clienthealth_exporters.prometheus.series import EVERYBODY, METRICS, Family, Sample
from clienthealth_exporters.prometheus.states import State, States
from clienthealth_exporters.prometheus.webhook import Webhook

log = logging.getLogger(__name__)
PROBES = frozenset({"/healthz", "/readyz", "/livez"})
#: The request /livez fails if the topic `client-health` was not polled for this time.
STUCK_SECONDS = 120.0


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Serve until SIGTERM or Ctrl-C; return 0.

    Raises ServiceError if the port is taken. Raises SettingsError for an invalid label, or an unreadable file of owners
    or secrets.
    """
    overrides = {name: value for name in ("host", "port") if (value := getattr(args, name)) is not None}
    settings = replace(settings, prometheus=replace(settings.prometheus, **overrides))
    stop = stop_event()
    states = States(settings)
    exporter = Exporter(settings, states, lambda: topic.trouble, idle=lambda: topic.idle_seconds)
    topic = HealthTopic(settings, states.put, prepare=exporter.prepare)
    webhook = Webhook(settings, lambda: topic.trouble) if settings.prometheus.incident_webhook else None
    if webhook is not None:
        states.changed = webhook.note
    with Server(settings.prometheus, exporter, PROBES) as server:
        threading.Thread(target=server.serve_forever, name="web", daemon=True).start()
        log.info("status page at %s/, metrics at %s/metrics", server.url, server.url)
        try:
            topic.run(stop)
        finally:
            server.shutdown()
            if webhook is not None:
                webhook.close()
    return 0


@dataclass(eq=False)
class Exporter:
    """The exporter's state and its answers to HTTP requests.

    `trouble`  function that returns why records of clients may be missing, or None if all records have been read
    `clock`    function that returns the time in epoch seconds
    `idle`     function that returns the seconds since the health topic was last polled
    """

    settings: Settings
    states: States
    trouble: Callable[[], str | None]
    clock: Callable[[], float] = time.time
    idle: Callable[[], float] = lambda: 0.0
    _complete: bool = False
    _dropped: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._begin = exposition.beginning(self.settings)
        self._api = api.Api(self.states, self._view)
        files = self.settings.owners.files
        self._owners = Reread("owners", files, lambda: read_owners(files))
        self._facets: tuple[list[State] | None, Owners, Facets] = (None, Owners(), {})

    def __call__(self, request: Request) -> Response:
        match request.path:
            case "/":
                states, view = self.states.live(), self._view()
                counts, filters = self._facets_of(states, view.owners), Filters.from_query(request.query)
                return Response(status_page.overview(view, states, counts, filters))
            case "/metrics":
                page = self.metrics()
                if self._complete:
                    return Response(page, exposition.CONTENT_TYPE)
                # If Prometheus accepted an incomplete page, it would end the series of the missing clients.
                later = {"Retry-After": "1"}
                return Response(page, exposition.CONTENT_TYPE, HTTPStatus.SERVICE_UNAVAILABLE, later)
            case "/healthz" | "/readyz":
                return probe(self.trouble())
            case "/livez":
                idle = self.idle()
                return probe(f"the exporter last polled its topic {idle:.0f} s ago" if idle > STUCK_SECONDS else None)
            case "/client":
                return self._client(request)
            case "/fleet":
                return Response(status_page.fleet(self._view(), self.states.live(), self.states.history))
            case html_page.SCRIPT_PATH:
                return Response(html_page.script(), "text/javascript; charset=utf-8")
            case "/clients.json":
                records = ((b", " if number else b"") + state.raw for number, state in enumerate(self.states.live()))
                return Response(itertools.chain((b"[",), records, (b"]",)), "application/json")
            case path if path.startswith(api.PREFIX):
                return self._api(request)
            case path if path.startswith(RUNBOOKS) and path.endswith("/"):
                # If a page's URL ends with a slash, the page's relative links do not work.
                above = {"Location": f"../{path.rstrip('/').rpartition('/')[2]}"}
                return Response("", "text/plain", HTTPStatus.MOVED_PERMANENTLY, above)
            case path if path.startswith(RUNBOOKS):
                name = path.removeprefix(RUNBOOKS).strip("/")
                runbook = status_page.runbook(name) if name else status_page.runbook_index()
                if runbook is None:
                    return Response("there is no such runbook\n", "text/plain", HTTPStatus.NOT_FOUND)
                return Response(runbook)
        return Response("not found\n", "text/plain", HTTPStatus.NOT_FOUND)

    def metrics(self) -> Iterator[bytes]:
        """Return the content of /metrics as an iterator of blocks.

        Until the topic has been read once, /metrics has only the exporter's own metrics.
        """
        trouble = self.trouble()
        self._complete = self._complete or trouble is None
        return (text.encode("utf-8", "replace") for text in self._page(trouble, whole=self._complete))

    def prepare(self) -> None:
        """Make all lines of /metrics before the first scrape, so that the first scrape is fast.

        The lines of 20,000 clients take 4 s of CPU time.
        """
        self.states.shown(self.states.live(), self.settings.prometheus.max_series_per_metric, {})

    def _page(self, trouble: str | None, whole: bool) -> Iterator[str]:
        """Yield the text of all metrics, or only of the exporter's own metrics if `whole` is False."""
        lacking = dict[str, int]()
        if whole:
            states, cap = self.states.live(), self.settings.prometheus.max_series_per_metric
            yield from exposition.page(self.states.shown(states, cap, lacking), cap, lacking)
            yield from self._rendered(services.samples(states))
            cluster = self.settings.prometheus.cluster_name
            yield from self._rendered(services.owners_of(states, self._owners.current(), cluster))
        self._dropped.update(lacking)
        left_out = Counter({EVERYBODY: self.states.left_out}) if self.states.left_out else Counter[str]()
        dropped: list[Sample] = [((name,), count) for name, count in sorted((self._dropped + left_out).items())]
        newest: list[Sample] = [((subject,), at) for subject, at in self.states.newest_of.items()]
        own: Mapping[str, list[Sample]] = {
            "exporter_up": [((), int(trouble is None))],
            "exporter_decode_errors_total": [((), self.states.decode_errors)],
            "series_dropped_total": dropped,
            "exporter_newest_record_timestamp_seconds": newest,
            "exporter_owners_read": [((), int(self._owners.readable))] if self.settings.owners.files else [],
        }
        yield from self._rendered((METRICS[f"kafka_client_health_{name}"], samples) for name, samples in own.items())

    def _rendered(self, metrics: Iterable[tuple[Family, list[Sample]]]) -> Iterator[str]:
        return (exposition.rendered(family, samples, self._begin) for family, samples in metrics if samples)

    def _view(self) -> status_page.View:
        return status_page.View(
            self.settings,
            self.clock(),
            self.trouble(),
            self.states.newest,
            self.states.left_out,
            self._owners.current(),
        )

    def _facets_of(self, states: list[State], owners: Owners) -> Facets:
        if self._facets[0] is not states or self._facets[1] is not owners:
            self._facets = (states, owners, facets(states, self.settings, owners))
        return self._facets[2]

    def _client(self, request: Request) -> Response:
        """Return the client's page, or a redirect to the exporter that serves the client."""
        service, instance, client_id = (request.query.get(name, "") for name in ("service", "instance", "client_id"))
        names = service, instance, client_id
        for state in self.states.live():
            if (state.client.service, state.client.instance, state.client.client_id) == names:
                return Response(status_page.client(self._view(), state, self.states.history.track(state.key)))
        shard, page, ours = "", "", self.settings.prometheus
        asked = Client(service, "", instance, client_id)
        number = place(asked.key.encode("utf-8", "replace"), ours)
        if ours.shard and not ours.shard.startswith(f"{number}/"):
            shard = f"{number}/{ours.shard.partition('/')[2]}"
            page = own_page(self.settings, str(number)) if "{shard}" in self.settings.links.status_page else ""
        if page:
            return Response("", status=HTTPStatus.FOUND, headers={"Location": f"{page}/{address(asked)}"})
        if (recalled := self.states.recalled(names)) is not None:
            last = wording.moment(recalled.seen, self.clock())
            note = f"No data from this client since {last}; this is its last record."
            if shard:
                note = f"The exporter of shard {shard} serves this client; below is the client's newest record."
            track = self.states.history.track(recalled.key)
            return Response(status_page.client(self._view(), recalled, track, note))
        status = HTTPStatus.OK if shard else HTTPStatus.NOT_FOUND
        return Response(status_page.missing(self._view(), " · ".join(names), shard), status=status)
