"""Reports on an application's own kafka-python 3 producers and consumers.

    from clienthealth_exporters.python_client import report

    producer = KafkaProducer(bootstrap_servers="kafka:9092", client_id="order-producer")
    report(producer, service="orders-api")

From then on the application goes on as before, and every 10 s a snapshot of the client goes to the topic
`client-metrics` of the same cluster, with a last one when the client is closed or the process ends:

- producers: records sent, acknowledged and failed (`record-send-total`, `record-ack-total`, `record-error-total`) and
  not yet acknowledged (`queue-records`), by topic too; the time from `send()` to the acknowledgement
  (`ack-latency-avg`, `-max`); how long the application's callbacks hold up the producer's only thread
  (`callback-time-avg`, `-max`, `-p99`, all in ms), one that does not return counted with its time so far;
- consumers: time in `poll()` (`poll-idle-ratio-avg`), since and between polls
  (`last-poll-seconds-ago`, `time-between-poll-max`), records consumed, position and lag by partition, also of
  consumers that never commit;
- of both what kafka-python's own `metrics()` tells under the names that the monitor knows.

What it costs: some microseconds a record and, while a record is under way, two small objects; the rest happens on
one daemon thread with a small producer of its own. It never raises into the application, and blocks it at most
`close_seconds` in `close()`, for the last snapshot. While the cluster cannot be reached, snapshots are dropped and
counted (`Reporter.dropped_total`). After a fork the child must call `report` again for clients of its own.

A callback is timed when it is added to the future that `send()` returned, before the record was acknowledged.
"""

from __future__ import annotations

import atexit
import json
import logging
import math
import os
import socket
import threading
import time
import weakref
from collections import deque
from collections.abc import Mapping
from typing import Any

import kafka

from clienthealth.model import canonical
from clienthealth.model.clients import ClientProcess
from clienthealth.model.metrics import CLIENT_METRICS, CONFIG_OPTIONS
from clienthealth_exporters.python_client.probes import ConsumerProbe, ProducerProbe
from clienthealth_exporters.python_client.watch import watch

log = logging.getLogger(__name__)

#: Snapshots that were sent and not acknowledged; with more the cluster counts as away, and new ones are dropped.
MAX_UNDER_WAY = 20
#: How the reporter reaches the cluster, taken over from the client that it reports on.
_CONNECTION = ("bootstrap_servers", "security_", "ssl_", "sasl_", "proxy_url", "socks5_proxy", "client_dns_lookup")
#: kafka-python 3.0 measures these in seconds although it says milliseconds.
_FACTORS = {"record-queue-time-avg": 1000.0, "record-queue-time-max": 1000.0}
_GROUPS = ("producer-metrics", "consumer-metrics", "consumer-fetch-manager-metrics", "consumer-coordinator-metrics")

#: Instance and client id of all that is reported on: kafka-python gives consumers the same id unless told otherwise.
_TAKEN: set[tuple[str, str]] = set()
_LOCK = threading.RLock()


def report(
    *clients: Any,
    service: str,
    instance: str | None = None,
    topic: str = "client-metrics",
    interval_seconds: float = 10.0,
    close_seconds: float = 1.0,
    kafka_options: Mapping[str, Any] | None = None,
) -> Reporter:
    """Report on kafka-python producers and consumers from now on.

    `instance` names the process (host:pid). `kafka_options` are kafka-python's for the reporter's own producer; by
    default it uses the cluster and the security of the first client. Raises TypeError if something else than a
    KafkaProducer or KafkaConsumer is given, which no running application does.
    """
    for client in clients:
        if not isinstance(client, kafka.KafkaProducer | kafka.KafkaConsumer):
            raise TypeError(f"{type(client).__name__} is neither a KafkaProducer nor a KafkaConsumer")
    if not clients:
        raise TypeError("no client to report on")
    options = connection_of(clients[0]) if kafka_options is None else dict(kafka_options)
    reporter = Reporter(service, instance, topic, interval_seconds, close_seconds, options)
    for client in clients:
        reporter.watch(client)
    reporter.start()
    return reporter


def connection_of(client: Any) -> dict[str, Any]:
    """The options of a client that say where its cluster is and how to get in."""
    return {name: value for name, value in client.config.items() if name.startswith(_CONNECTION) and value is not None}


class _Watched:
    """A client under watch, held weakly."""

    def __init__(self, client: Any, client_id: str) -> None:
        self.client = weakref.ref(client)
        self.client_id = client_id
        self.probe = ProducerProbe() if isinstance(client, kafka.KafkaProducer) else ConsumerProbe()
        self.group = client.config.get("group_id") if self.probe.kind == "consumer" else None
        options = {name: client.config.get(name.replace(".", "_")) for name in CONFIG_OPTIONS}
        self.config = {name: str(value) for name, value in options.items() if value is not None}


class Reporter:
    """Watches clients of one process and publishes their snapshots from a thread of its own."""

    def __init__(
        self,
        service: str,
        instance: str | None,
        topic: str,
        interval_seconds: float,
        close_seconds: float,
        options: Mapping[str, Any],
    ) -> None:
        host = socket.gethostname()
        self._process = ClientProcess(service, host, instance or f"{host}:{os.getpid()}")
        self._topic = topic
        self._interval = interval_seconds
        self._close_seconds = close_seconds
        self._options = dict(options)
        self._watched: list[_Watched] = []
        self._last: deque[tuple[bytes, bytes, threading.Event]] = deque(maxlen=MAX_UNDER_WAY)
        self._under_way = 0
        self._lock = threading.RLock()
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"kafka-health {service}", daemon=True)
        self._producer: Any = None
        #: Snapshots that were delivered, and that were not.
        self.delivered_total = self.dropped_total = 0

    def watch(self, client: Any) -> None:
        """Report on one more client. A client id that is in use already gets a number behind it."""
        wanted = client.config["client_id"]
        with _LOCK:
            client_id, number = wanted, 2
            while (self._process.instance, client_id) in _TAKEN:
                client_id, number = f"{wanted}-{number}", number + 1
            _TAKEN.add((self._process.instance, client_id))
        watched = _Watched(client, client_id)
        watched.probe.closed = lambda: self._finish(watched)
        watch(client, watched.probe)
        self._watched.append(watched)

    def start(self) -> None:
        """Publish a first snapshot of each client now, and then one every interval."""
        atexit.register(self._at_exit)
        self._thread.start()

    def snapshot(self, watched: _Watched) -> dict[str, Any]:
        """A client's snapshot in the canonical form."""
        client = watched.client()
        metrics = watched.probe.metrics()
        if client is not None:
            try:
                metrics = library_metrics(client, watched.probe.kind) | metrics
            except Exception:
                log.debug("metrics() of %s failed", watched.client_id, exc_info=True)
        if self.dropped_total:
            metrics["reporter-dropped-total"] = self.dropped_total
        who = self._process.client(
            watched.client_id, watched.probe.kind, "kafka-python", kafka.__version__, watched.group
        )
        now_ms = round(time.time() * 1000)
        return canonical.snapshot(who, now_ms, metrics, watched.probe.topics(), watched.config)

    def _encoded(self, watched: _Watched) -> tuple[bytes, bytes]:
        snapshot = self.snapshot(watched)
        return canonical.key(snapshot).encode(), json.dumps(snapshot, allow_nan=False).encode()

    def _finish(self, watched: _Watched) -> None:
        """The client's `close()` has returned: hand its last snapshot over and wait for it, but not for long."""
        with _LOCK:
            if watched not in self._watched:
                return
            delivered = threading.Event()
            self._last.append((*self._encoded(watched), delivered))
            self._forget(watched)
        self._wake.set()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            delivered.wait(self._close_seconds)

    def _forget(self, watched: _Watched) -> None:
        with _LOCK:
            self._watched.remove(watched)
            _TAKEN.discard((self._process.instance, watched.client_id))

    def _at_exit(self) -> None:
        # kafka-python closes producers itself, after this; then `_finish` knows what they could not deliver.
        for watched in list(self._watched):
            if watched.probe.kind == "consumer":
                self._finish(watched)

    def _run(self) -> None:
        due = time.monotonic()
        while self._watched or self._last:
            try:
                connected = self._connected()
                while self._last:
                    key, value, delivered = self._last.popleft()
                    if connected:
                        self._send(key, value, delivered)
                    else:
                        self._dropped(delivered)
                if time.monotonic() >= due:
                    due = time.monotonic() + self._interval
                    for watched in list(self._watched):
                        if connected:
                            self._send(*self._encoded(watched))
                        else:
                            self._dropped()
                        if watched.client() is None:
                            # It is gone without a close(); this was the last that is known of it.
                            self._forget(watched)
            except Exception:
                log.debug("the reporter failed", exc_info=True)
            self._wake.wait(max(0.0, due - time.monotonic()))
            self._wake.clear()
        atexit.unregister(self._at_exit)
        if self._producer is not None:
            self._producer.close(timeout=self._close_seconds)

    def _connected(self) -> bool:
        if self._producer is None:
            try:
                self._producer = kafka.KafkaProducer(
                    **{
                        "client_id": f"kafka-health-{self._process.service}",
                        "acks": 1,
                        "enable_idempotence": False,
                        "max_block_ms": 2000,
                        "request_timeout_ms": 4000,
                        "delivery_timeout_ms": 5000,
                        "bootstrap_timeout_ms": 3000,
                        "metrics_enabled": False,
                        **self._options,
                    }
                )
            except Exception:
                log.debug("the cluster for reports cannot be reached", exc_info=True)
                return False
            # At exit it must outlive the clients that it reports on, which kafka-python closes after it.
            getattr(self._producer, "_unregister_cleanup", lambda: None)()
        return True

    def _send(self, key: bytes, value: bytes, delivered: threading.Event | None = None) -> None:
        if self._under_way >= MAX_UNDER_WAY:
            self._dropped(delivered)
            return
        with self._lock:
            self._under_way += 1
        try:
            future = self._producer.send(self._topic, key=key, value=value)
        except Exception:
            log.debug("a snapshot could not be sent", exc_info=True)
            self._done(None, delivered, failed=True)
            return
        future.add_callback(self._done, delivered=delivered)
        future.add_errback(self._done, delivered=delivered, failed=True)

    def _done(self, _outcome: object, delivered: threading.Event | None, failed: bool = False) -> None:
        with self._lock:
            self._under_way -= 1
            self.delivered_total += not failed
        if failed:
            self._dropped(delivered)
        elif delivered is not None:
            delivered.set()

    def _dropped(self, delivered: threading.Event | None = None) -> None:
        with self._lock:
            self.dropped_total += 1
        if delivered is not None:
            delivered.set()


def library_metrics(client: Any, kind: str) -> dict[str, float]:
    """What `metrics()` of kafka-python tells under the names that the monitor knows.

    An average of nothing is 0 there, which its maximum gives away: it is infinite.
    """
    ours = {name: f"{name.removesuffix('-avg')}-max" for name in CLIENT_METRICS[kind]}
    known = {*ours, *ours.values()}
    values = {
        name.name: float(metric.value()) * _FACTORS.get(name.name, 1.0)
        for name, metric in (client.metrics(raw=True) or {}).items()
        if name.group in _GROUPS and name.name in known and name.tags.keys() <= {"client-id"}
    }
    return {
        name: values[name]
        for name, largest in ours.items()
        if math.isfinite(values.get(name, math.nan)) and math.isfinite(values.get(largest, 0.0))
    }
