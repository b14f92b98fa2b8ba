"""The subscription with which brokers request metrics from their clients (KIP-714).

Clients push metrics only to brokers of Kafka 3.7 and newer that have a plugin such as ours. The Java client can push
metrics since 3.7, and librdkafka since 2.5.

librdkafka before 2.10.1 is excluded, because it sends empty pushes, and brokers then close the connection. In
librdkafka's pushes, only counters contain the time at which the push's interval began. So the subscription for
librdkafka also requests counters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from shlex import quote

from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import IncompatibleBrokerVersion, KafkaError, UnsupportedVersionError
from kafka.protocol.api_key import ApiKey
from kafka.protocol.metadata import ApiVersionsRequest

from clienthealth.model.errors import ServiceError
from clienthealth.model.metric_names import JAVA, kip714, spellings
from clienthealth.model.metrics import SPELLINGS

NAME = "kafka-client-health"
#: A filter is a list of conditions `key=regular expression`, which must all match.
MATCH = "client_software_name=apache-kafka-java"
NAME_LIBRDKAFKA = f"{NAME}-librdkafka"
MATCH_LIBRDKAFKA = (
    "client_software_name=.*rdkafka.*|confluent-kafka-.*,"
    "client_software_version=(.*rdkafka-)?(2[.]10[.][1-9]|2[.]1[1-9][.]|2[.][2-9][0-9][.]|[3-9][.])[0-9.A-Z-]*"
)
OF_LIBRDKAFKA: tuple[str, ...] = tuple(SPELLINGS["librdkafka_pushed"])
#: Clients push at this interval. An interval of 60 s could delay a verdict by another 30 s.
INTERVAL_SECONDS = 30
REPORTERS = "metric.reporters"
PLUGIN = "clienthealth.ClientTelemetryToTopic"


@dataclass(frozen=True)
class Subscription:
    """A KIP-714 subscription: prefixes of metric names, push interval, and `match`, a filter of clients."""

    metrics: tuple[str, ...]
    interval_ms: int
    match: str = ""
    name: str = NAME

    @classmethod
    def ours(cls, seconds: float = INTERVAL_SECONDS) -> tuple[Subscription, Subscription]:
        """Return the subscription for Java clients and the one for librdkafka. `seconds`: the push interval."""
        every = round(seconds * 1000)
        # A name in a subscription also selects all longer names that begin with it. So leave out these longer names.
        names = sorted({kip714(group, name) for group, of in JAVA.items() for name in of} | {*spellings(kip714)})
        prefixes = [name for name in names if not any(name != other and name.startswith(other) for other in names)]
        return (cls(tuple(prefixes), every, MATCH), cls(OF_LIBRDKAFKA, every, MATCH_LIBRDKAFKA, NAME_LIBRDKAFKA))

    def covers(self, other: Subscription) -> bool:
        """Return True if this subscription contains all clients and all metrics of `other`.

        In `metrics`, `*` and an empty prefix mean all metrics. An empty filter (`match`) means all clients. If the
        filter is not empty, it must be equal to `other.match`.
        """
        asked = not self.match or self.match == other.match
        metrics = (
            any(name.startswith(prefix) for prefix in self.metrics) or "*" in self.metrics for name in other.metrics
        )
        return asked and all(metrics)

    @property
    def config(self) -> Mapping[str, str]:
        """The subscription as brokers store it: the options of a CLIENT_METRICS resource."""
        return {"metrics": ",".join(self.metrics), "interval.ms": str(self.interval_ms), "match": self.match}

    def command(self, servers: str) -> str:
        """Return the one-line command with which an administrator creates the subscription on the brokers `servers`."""
        what = f"--name {self.name} --metrics {','.join(self.metrics)} --interval {self.interval_ms}"
        return f"kafka-client-metrics.sh --bootstrap-server {servers} --alter {what} --match {quote(self.match)}"

    def write(self, client: KafkaAdminClient) -> None:
        """Create or change the subscription.

        Raises ServiceError if the brokers do not answer, are older than 3.7, or deny the user the permission.
        """
        resource = ConfigResource(ConfigResourceType.CLIENT_METRICS, self.name, dict(self.config))
        try:
            result = client.alter_configs([resource], raise_on_unknown=False)
        except (KafkaError, ValueError) as error:
            raise ServiceError(f"{type(error).__name__}: {error}") from error
        answer = result[ConfigResourceType.CLIENT_METRICS.name.lower()][self.name]
        if answer != "OK":
            raise ServiceError(str(answer))


def subscriptions(client: KafkaAdminClient) -> Mapping[str, Subscription] | None:
    """Return the cluster's KIP-714 subscriptions by name; None if the brokers are older than 3.7.

    Raises KafkaError if the request fails.
    """
    of_clients = ConfigResourceType.CLIENT_METRICS
    try:
        names = client.list_config_resources([of_clients]).get(of_clients.name.lower(), [])
    except (IncompatibleBrokerVersion, UnsupportedVersionError):
        return None
    if not names:
        return {}
    found = client.describe_configs([ConfigResource(of_clients, name) for name in names], config_filter="all")
    return {name: _subscription(name, config) for name, config in found.get(of_clients.name.lower(), {}).items()}


def brokers_with_plugin(client: KafkaAdminClient, nodes: Sequence[int]) -> list[int] | None:
    """Return the ids of those brokers in `nodes` (broker ids) that have our plugin among their `metric.reporters`.

    Returns None if the user may not read `metric.reporters`. Raises KafkaError if the request fails.
    """
    resources = [ConfigResource(ConfigResourceType.BROKER, str(node), {REPORTERS: None}) for node in nodes]
    configs = client.describe_configs(resources, config_filter="all")[ConfigResourceType.BROKER.name.lower()]
    if not all(REPORTERS in config for config in configs.values()):
        return None
    return [node for node in nodes if PLUGIN in str(configs[str(node)][REPORTERS]["value"])]


def takes_pushes(client: KafkaAdminClient, node: int) -> bool:
    """Return True if the broker `node` (id) accepts pushes of metrics. Only brokers with a plugin accept pushes.

    Raises KafkaError if the broker does not answer.
    """
    # Ask the broker itself, because the admin client assumes that all brokers support the same requests.
    answer = client._manager.run(client._manager.send, ApiVersionsRequest(version=0), node)
    return any(offered.api_key == ApiKey.PushTelemetry for offered in answer.api_keys)


def _subscription(name: str, config: Mapping[str, Mapping[str, str]]) -> Subscription:
    values = {key: value["value"] for key, value in config.items()}
    names = tuple(filter(None, (values.get("metrics") or "").split(",")))
    return Subscription(names, int(values.get("interval.ms") or 300_000), values.get("match") or "", name)
