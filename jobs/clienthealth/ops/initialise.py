"""Prepare an installation: write the settings file, test the connection to Kafka, create the missing topics."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafka import KafkaAdminClient
from kafka.errors import AuthorizationError, InvalidReplicationFactorError, KafkaError, TopicAuthorizationFailedError

from clienthealth.configuration import placed, toml
from clienthealth.model.errors import ServiceError, SettingsError
from clienthealth.model.subscription import Subscription, subscriptions
from clienthealth.platform import secrecy
from clienthealth.platform.kafka import admin, error_text, extents
from clienthealth.platform.logins import LOGINS, java_options
from clienthealth.platform.topics import Topic, inputs, outputs, replication_risk, usual_replicas
from clienthealth.settings import KafkaSettings, Settings, TopicSettings

TIMEOUT_MS = 10_000
_USER = {"username": "username", "password": "password"}
#: For each SASL mechanism, the options of its login module. Each option is mapped to the field of `Answers` with the
#: option's value.
PARTS = {
    **dict.fromkeys(LOGINS, _USER),
    "OAUTHBEARER": {"clientId": "username", "clientSecret": "password", "scope": "scope"},
    "GSSAPI": {"keyTab": "keytab", "principal": "username"},
    "AWS_MSK_IAM": {},
}
STORES = {".jks": "JKS", ".p12": "PKCS12", ".pfx": "PKCS12"}


@dataclass(frozen=True)
class Answers:
    """The user's answers about the connection, the topics, and the folder for the monitor's state.

    `repr` of the answers leaves out the passwords.

    `servers`                 the brokers: host:port, comma separated
    `username`, `password`    SASL: user and password; OAUTHBEARER: client id and secret; GSSAPI: principal and no
                              password
    `token_url`, `scope`      OAUTHBEARER: URL that issues tokens (file:///… for a token in a file), scope of the tokens
    `keytab`                  GSSAPI: path of the keytab; '' for the ticket cache
    `ca_file`, `client_file`  the brokers' CA; the client's key and certificate (each file is PEM or has a type in
                              `STORES`)
    `store_password`          password of `ca_file` and `client_file` if their type is in `STORES`
    `state`                   folder or URL for checkpoints, history and reviews; '': the current folder
    """

    servers: str
    protocol: str = "PLAINTEXT"
    mechanism: str = "SCRAM-SHA-512"
    username: str = ""
    password: str = field(default="", repr=False)
    ca_file: str = ""
    client_file: str = ""
    topics: TopicSettings = field(default_factory=TopicSettings)
    state: str = ""
    token_url: str = ""
    scope: str = ""
    keytab: str = ""
    store_password: str = field(default="", repr=False)

    def options(self) -> dict[str, str]:
        """Return the options for `[kafka.options]`, named as in Kafka's Java clients; {} for PLAINTEXT.

        Raises SettingsError if an answer that the chosen security protocol requires is missing or invalid.
        """
        if self.protocol == "PLAINTEXT":
            return {}
        options = {"security.protocol": self.protocol}
        if self.protocol.startswith("SASL_"):
            options["sasl.mechanism"] = self.mechanism
            if parts := [(name, getattr(self, answer)) for name, answer in PARTS[self.mechanism].items()]:
                words = [LOGINS[self.mechanism].module, "required"]
                if self.mechanism == "GSSAPI":
                    words.append("useKeyTab=true storeKey=true" if self.keytab else "useTicketCache=true")
                escaped = ((name, value.replace("\\", "\\\\").replace('"', '\\"')) for name, value in parts if value)
                words += [f'{name}="{value}"' for name, value in escaped]
                options["sasl.jaas.config"] = f"{' '.join(words)};"
            if self.token_url:
                options["sasl.oauthbearer.token.endpoint.url"] = self.token_url
        if self.protocol.endswith("SSL"):
            for store, file in (("truststore", self.ca_file), ("keystore", self.client_file)):
                if file:
                    kind = STORES.get(Path(file).suffix.lower(), "PEM")
                    options |= {f"ssl.{store}.type": kind, f"ssl.{store}.location": str(Path(file).resolve())}
                    options |= {f"ssl.{store}.password": self.store_password} if kind != "PEM" else {}
        try:
            java_options(options)
        except SettingsError as error:
            token = "--token-url, " if self.mechanism == "OAUTHBEARER" else ""
            raise SettingsError(f"{self.protocol} needs {token}--username and --password-file: {error}") from error
        return options

    def settings(self) -> Settings:
        """Return the settings that result from the answers. Raises SettingsError for a missing or unusable answer."""
        return Settings(kafka=KafkaSettings(self.servers, self.options()), topics=self.topics)

    def text(self, hidden: bool = False) -> str:
        """Return the text of the settings file. `hidden`: True to hide the secrets."""
        options, there = self.options(), placed(Settings(), self.state)
        sections: dict[str, Mapping[str, str | tuple[str, ...]]] = {
            "kafka": {"bootstrap_servers": self.servers},
            "kafka.options": secrecy.shown(options) if hidden else options,
            "topics": {"metrics": self.topics.metrics, "logs": self.topics.logs},
            "monitor": {"checkpoint": there.monitor.checkpoint, "history": there.monitor.history},
            "review": {"out": there.review.out},
        }
        lines = [
            "# Settings of Kafka Client Health. A setting that is missing here has its default value.",
            "# deploy/config.reference.toml lists every setting with its default value and the reason for it.",
        ]
        for section, values in sections.items():
            keys = {toml(name) if "." in name else name: toml(value) for name, value in values.items()}
            lines += ["", f"[{section}]", *(f"{key} = {value}" for key, value in keys.items())] if keys else []
        return "\n".join([*lines, ""])


@dataclass(frozen=True)
class Topics:
    """The monitor's topics in a cluster: the topics to create, and a sentence about each existing topic.

    `unread`: describes the partitions that could not be read; '' if there are none.
    """

    missing: list[Topic]
    there: list[str]
    unread: str


def _admin(settings: Settings, **options: Any) -> KafkaAdminClient:
    return admin(settings, client_id="kafka-health-init", request_timeout_ms=TIMEOUT_MS, **options)


def find_topics(settings: Settings, partitions: int, replicas: int | None) -> Topics:
    """Find which of the monitor's topics exist.

    `partitions`: number of partitions of new input topics. `replicas`: replication factor of new topics; None means
    three, or the number of brokers if that is smaller. Raises ServiceError if no broker can be reached or a request
    fails.
    """
    try:
        with closing(_admin(settings, bootstrap_timeout_ms=TIMEOUT_MS)) as client:
            brokers = len(client.describe_cluster()["brokers"])
            described = {topic["name"]: topic for topic in client.describe_topics()}
            copies = replicas or usual_replicas(brokers)
            ours = [*inputs(settings.topics, partitions, replicas=copies), *outputs(settings.topics, copies)]
            present = [topic.name for topic in ours if topic.name in described]
            unread = extents(client, present).trouble
    except KafkaError as error:
        raise ServiceError(f"Kafka answered, then failed: {error_text(error)}") from error
    risks = {name: replication_risk(described[name], brokers) for name in present}
    there = [f"The topic {name} exists{risk and f', but has {risk}'}." for name, risk in risks.items()]
    return Topics([topic for topic in ours if topic.name not in described], there, unread)


def create_topics(settings: Settings, topics: Sequence[Topic], say: Callable[[str], None]) -> None:
    """Create the topics one by one. `say`: called with a text about each topic.

    Raises ServiceError at the first topic that cannot be created.
    """
    with closing(_admin(settings)) as client:
        for number, topic in enumerate(topics):
            try:
                created = topic.create(client)
            except (AuthorizationError, TopicAuthorizationFailedError) as error:
                names = ", ".join(left.name for left in topics[number:])
                raise ServiceError(
                    f"this user may not create the topic {topic.name}. Have an administrator run the commands above "
                    f"(for {names}), then run 'kafka-health init' again"
                ) from error
            except KafkaError as error:
                too_many = isinstance(error, InvalidReplicationFactorError)
                advice = "; start the brokers that are down, or give a smaller --replication-factor" if too_many else ""
                raise ServiceError(
                    f"the topic {topic.name} could not be created: {error_text(error)}{advice}"
                ) from error
            say(f"created {topic.name}" if created else f"{topic.name} exists, but this user may not see it")


def missing_subscriptions(settings: Settings, seconds: float) -> tuple[list[Subscription], str]:
    """Return the missing subscriptions of client metrics (KIP-714), and a sentence about existing subscriptions.

    `seconds`: wanted interval between pushes. Raises ServiceError if no broker can be reached.
    """
    wanted = Subscription.ours(seconds)
    try:
        with closing(_admin(settings)) as client:
            present = subscriptions(client)
    except KafkaError as error:
        # Report all as missing: a user who may not see subscriptions may not create them either.
        return [*wanted], f"This user may not see subscriptions ({type(error).__name__})."
    if present is None:
        return [], "The brokers are older than 3.7: clients cannot push their metrics through these brokers."
    missing = [one for one in wanted if not any(other.covers(one) for other in present.values())]
    if missing:
        return (
            missing,
            f"The brokers do not ask {'some ' if len(missing) < len(wanted) else ''}clients for their metrics yet.",
        )
    often = sorted({other.interval_ms / 1000 for other in present.values() for one in wanted if other.covers(one)})
    return (
        [],
        f"The brokers ask clients to push their metrics every {' and '.join(f'{seconds:g}' for seconds in often)} s.",
    )


def subscribe(settings: Settings, missing: Sequence[Subscription], say: Callable[[str], None]) -> list[str]:
    """Create or change the subscriptions in `missing`. Return the names of subscriptions that cannot be written.

    `say`: called with a text about each subscription.
    """
    refused = []
    with closing(_admin(settings)) as client:
        for subscription in missing:
            try:
                subscription.write(client)
                often = f"every {subscription.interval_ms / 1000:g} s"
                say(f"the brokers now ask clients to push their metrics {often} ({subscription.name})")
            except ServiceError as error:
                say(f"the subscription {subscription.name} could not be written: {error}")
                refused.append(subscription.name)
    return refused


def write(path: Path, text: str) -> None:
    """Write a file completely or not at all; only its owner may read it. Raises SettingsError if writing fails."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            Path(draft).replace(path)
        except BaseException:
            Path(draft).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise SettingsError(f"{path}: cannot be written: {error.strerror}") from error
