"""Check of what clients push by themselves (KIP-714): the plugin in the brokers, the subscription, and who pushes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from clienthealth.model.subscription import Subscription, brokers_with_plugin, subscriptions, takes_pushes
from clienthealth.model.telemetry import RawRecord
from clienthealth.ops.doctor import Finding, State
from clienthealth.settings import Settings

ABOUT = "pushes"
UNSEEN = "This user may not see what brokers ask of their clients"
GRANT = "to have it checked: kafka-acls.sh --operation DescribeConfigs --cluster."


def clients_asked(settings: Settings, client: KafkaAdminClient, nodes: Sequence[int]) -> Iterator[Finding]:
    """Have the brokers our plugin, and do they ask their clients. Another way to hear them may do as well."""
    try:
        with_plugin = brokers_with_plugin(client, nodes)
        present = subscriptions(client)
        idle = [node for node in with_plugin or () if not takes_pushes(client, node)]
    except KafkaError as error:
        yield Finding(ABOUT, "skipped", f"{UNSEEN} ({type(error).__name__}); {GRANT}")
        return
    if with_plugin is None:
        yield Finding(ABOUT, "skipped", f"{UNSEEN}; {GRANT}")
        return
    if present is None:
        yield Finding(ABOUT, "skipped", "The brokers are older than 3.7: clients cannot push their metrics.")
        return
    if not with_plugin:
        text = (
            "No broker has our plugin: clients are heard by other ways only. deploy/README.md says how to install it."
        )
        yield Finding(ABOUT, "skipped", text)
        return
    lacking = [node for node in nodes if node not in with_plugin]
    if lacking:
        text = f"Of {len(nodes)} brokers {len(lacking)} lack our plugin ({', '.join(map(str, lacking))})"
        yield Finding(ABOUT, "warning", f"{text}: clients that push to them are not heard. Restart them with it.")
    if idle:
        text = f"The plugin of broker(s) {', '.join(map(str, idle))} takes no pushes: its settings are wrong"
        yield Finding(ABOUT, "failed", f"{text}. The log of the broker names them ('Client telemetry is not taken').")
    if not (lacking or idle):
        yield Finding(ABOUT, "ok", f"All {len(nodes)} broker(s) have our plugin.")
    of_java, of_librdkafka = Subscription.ours()
    yield _asked(settings, of_java, present, "Clients", "failed")
    yield _asked(settings, of_librdkafka, present, "Those on librdkafka", "skipped")


def _asked(
    settings: Settings, wanted: Subscription, present: Mapping[str, Subscription], who: str, otherwise: State
) -> Finding:
    covering = [one for one in present.values() if one.covers(wanted)]
    if covering:
        one = min(covering, key=lambda one: one.interval_ms)
        often = f"every {one.interval_ms / 1000:g} s"
        return Finding(ABOUT, "ok", f"{who} are asked for their metrics {often} ({one.name}).")
    command = wanted.command(settings.kafka.bootstrap_servers)
    text = f"{who} are not asked for {'all ' if present else ''}metrics that we read"
    return Finding(ABOUT, otherwise, f"{text}. 'kafka-health init' does it, or: {command}")


def who_pushes(topic: str, records: Iterable[RawRecord]) -> Iterator[Finding]:
    """How many clients of which versions the newest records of a topic were pushed by."""
    by_instance: dict[bytes, str] = {}
    for record in records:
        instance = record.headers.get("client_instance_id")
        if instance:
            said = (record.headers.get(f"client_software_{part}", b"") for part in ("name", "version"))
            by_instance[bytes(instance)] = " ".join(bytes(part).decode("utf-8", "replace") for part in said).strip()
    if by_instance:
        versions = Counter(version or "of unknown version" for version in by_instance.values())
        shown = ", ".join(f"{count} {version}" for version, count in versions.most_common())
        yield Finding(
            f"topic {topic}", "ok", f"Its newest records were pushed by {len(by_instance)} client(s): {shown}."
        )
