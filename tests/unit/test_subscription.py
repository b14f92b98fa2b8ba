"""Brokers ask clients for pushes, and `doctor` checks the plugin that takes them."""

from __future__ import annotations

import re
import shlex
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kafka import KafkaAdminClient
from kafka.errors import ClusterAuthorizationFailedError, UnsupportedVersionError

from clienthealth.model.readings import Source
from clienthealth.model.subscription import NAME, NAME_LIBRDKAFKA, PLUGIN, Subscription
from clienthealth.model.telemetry import RawRecord
from clienthealth.ops.doctor import brokers
from clienthealth.ops.doctor.records import pushing_clients
from clienthealth.settings import Settings

PRODUCER, CONSUMER = "org.apache.kafka.producer.", "org.apache.kafka.consumer."


#: A metric reporter named BROKEN stands for our plugin with wrong settings.
BROKEN = "broken"


class Cluster:
    def __init__(self, reporters: list[str | None], subscriptions: dict[str, dict[str, str]] | Exception) -> None:
        self.reporters, self.subscriptions = reporters, subscriptions
        self._manager = self

    def run(self, send: Any, request: Any, node: int) -> Any:
        return send(request, node)

    def send(self, request: Any, node: int) -> Any:
        works = BROKEN not in (self.reporters[node - 1] or "")
        return SimpleNamespace(api_keys=[SimpleNamespace(api_key=key) for key in ([3, 71, 72] if works else [3])])

    def list_config_resources(self, kinds: list[Any]) -> dict[str, list[str]]:
        if isinstance(self.subscriptions, Exception):
            raise self.subscriptions
        return {"client_metrics": list(self.subscriptions)} if self.subscriptions else {}

    def describe_configs(self, resources: list[Any], config_filter: str) -> dict[str, dict[str, Any]]:
        if resources[0].resource_type.name == "BROKER":
            configs = {
                str(node): {} if names is None else {"metric.reporters": {"value": names}}
                for node, names in enumerate(self.reporters, 1)
            }
            return {"broker": configs}
        assert isinstance(self.subscriptions, dict)
        values = {
            name: {key: {"value": value} for key, value in config.items()}
            for name, config in self.subscriptions.items()
        }
        return {"client_metrics": values}


def findings(*reporters: str | None, subscriptions: dict[str, dict[str, str]] | Exception) -> list[tuple[str, str]]:
    client = cast("KafkaAdminClient", Cluster(list(reporters), subscriptions))
    checked = brokers.clients_asked(Settings(), client, range(1, len(reporters) + 1))
    return [(finding.state, finding.text) for finding in checked]


def test_it_covers_what_is_read_and_nothing_twice() -> None:
    ours, _ = Subscription.ours()

    def to(*names: str) -> Subscription:
        return Subscription(names, 1, ours.match)

    for name in ("buffer.available.bytes", "select.total", "topic.record.send.total", "node.request.latency.max"):
        assert ours.covers(to(PRODUCER + name)), name
    assert ours.covers(to(CONSUMER + "fetch.manager.records.lag.max"))
    assert not ours.covers(to(PRODUCER + "incoming.byte.rate"))
    assert [a for a in ours.metrics for b in ours.metrics if a != b and a.startswith(b)] == []
    assert Subscription(("*",), 1).covers(ours)
    assert Subscription((PRODUCER, CONSUMER), 1).covers(ours)
    assert not Subscription((PRODUCER,), 1).covers(ours)


def test_one_for_java_does_not_ask_librdkafka() -> None:
    of_java, of_librdkafka = Subscription.ours()
    assert not Subscription(("*",), 1, of_java.match).covers(of_librdkafka)
    assert Subscription(("*",), 1, of_librdkafka.match).covers(of_librdkafka)


@pytest.mark.parametrize(
    ("name", "version", "asked"),
    [
        ("apache-kafka-java", "3.9.1", NAME),
        ("confluent-kafka-python", "2.16.1-rdkafka-2.16.0", NAME_LIBRDKAFKA),
        ("confluent-kafka-go", "2.10.1-librdkafka-2.10.1", NAME_LIBRDKAFKA),
        ("librdkafka", "2.12.0-RC1", NAME_LIBRDKAFKA),
        ("node-rdkafka", "3.0.0", NAME_LIBRDKAFKA),
        ("librdkafka", "2.10.0", None),
        ("librdkafka", "2.5.0", None),
        ("confluent-kafka-javascript", "3.1.0-librdkafka-2.8.0", None),
        ("confluent-kafka-python", "2.9.0-rdkafka-2.9.0", None),
        ("another", "4.0.0", None),
    ],
)
def test_which_clients_are_asked(name: str, version: str, asked: str | None) -> None:
    client = {"client_software_name": name, "client_software_version": version}

    def fits(subscription: Subscription) -> bool:
        rules = (rule.split("=") for rule in subscription.match.split(","))
        return all(re.fullmatch(rule, client[what]) for what, rule in rules)

    assert [one.name for one in Subscription.ours() if fits(one)] == ([asked] if asked else [])


def test_the_command_of_an_administrator() -> None:
    of_java, of_librdkafka = (shlex.split(one.command("b:9092")) for one in Subscription.ours(10))
    assert of_java[:6] == ["kafka-client-metrics.sh", "--bootstrap-server", "b:9092", "--alter", "--name", NAME]
    assert of_java[-3:] == ["10000", "--match", "client_software_name=apache-kafka-java"]
    assert of_librdkafka[5:7] == [NAME_LIBRDKAFKA, "--metrics"]
    assert of_librdkafka[-1] == Subscription.ours()[1].match


def test_the_doctor_lists_what_is_missing() -> None:
    with_plugin, ours = f"x.Y,{PLUGIN}", {one.name: dict(one.config) for one in Subscription.ours()}
    assert findings(with_plugin, with_plugin, subscriptions=ours) == [
        (
            "ok",
            "All 2 broker(s) have our plugin. "
            "From Kafka 4.2 on, only a broker's log shows whether the plugin's settings are wrong.",
        ),
        ("ok", "Clients are requested to push their metrics every 30 s (kafka-client-health)."),
        (
            "ok",
            "Clients on librdkafka are requested to push their metrics every 30 s (kafka-client-health-librdkafka).",
        ),
    ]
    ((state, text), *_) = findings(with_plugin, "x.Y", subscriptions=ours)
    assert (state, text.split(":")[0]) == ("warning", "1 of 2 brokers lack our plugin (2)")
    ((state, text), *_) = findings(with_plugin, f"{PLUGIN},{BROKEN}", subscriptions=ours)
    assert (state, text.split(".")[0]) == (
        "failed",
        "The plugin of broker(s) 2 accepts no pushes, because its settings are wrong",
    )
    (_, (state, text), _) = findings(with_plugin, subscriptions={})
    assert state == "failed"
    assert text.split(".")[0] == "Clients have no subscription that requests metrics"
    (_, (state, text), _) = findings(with_plugin, subscriptions={"lag": {"metrics": CONSUMER, "interval.ms": "5000"}})
    assert (state, text.split(".")[0]) == (
        "failed",
        "Clients have no subscription that requests all metrics that we read",
    )
    (*_, (state, text)) = findings(with_plugin, subscriptions={NAME: ours[NAME]})
    assert (state, text.split(".")[0]) == (
        "skipped",
        "Clients on librdkafka have no subscription that requests all metrics that we read",
    )


@pytest.mark.parametrize(
    ("reporters", "subscriptions", "text"),
    [
        ("x.Y", {}, "No broker has our plugin"),
        (None, {}, brokers.UNSEEN),
        ("x.Y", ClusterAuthorizationFailedError(), brokers.UNSEEN),
        ("x.Y", UnsupportedVersionError(), "The brokers are older than 3.7"),
    ],
)
def test_a_client_reporting_by_other_ways_is_not_failed(reporters: str | None, subscriptions: Any, text: str) -> None:
    ((state, sentence),) = findings(reporters, subscriptions=subscriptions)
    assert state == "skipped"
    assert sentence.startswith(text)


def test_the_doctor_counts_clients_that_push() -> None:
    def record(instance: str, version: str) -> RawRecord:
        headers = {"client_instance_id": instance.encode(), "client_software_version": version.encode()}
        return RawRecord(b"", Source("m", 0, 0), 0, headers={**headers, "client_software_name": b"apache-kafka-java"})

    findings = list(pushing_clients("m", [record("a", "3.9.1"), record("b", "4.1.2"), record("c", "4.1.2")] * 2))
    assert [finding.text for finding in findings] == [
        "The newest records were pushed by 3 client(s): 2 apache-kafka-java 4.1.2, 1 apache-kafka-java 3.9.1."
    ]
    assert list(pushing_clients("m", [RawRecord(b"", Source("m", 0, 0), 0)])) == []
