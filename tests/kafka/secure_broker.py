"""Run a broker with TLS, SCRAM and access control, and with its own certificate authority."""

from __future__ import annotations

import argparse
import shlex
import subprocess
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from kafka import KafkaAdminClient
from kafka.admin import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourceType,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from kafka.errors import KafkaError

from deploy.demo.broker import java_command
from deploy.demo.processes import Process, free_port
from tests.support.waiting import WAIT_SECONDS

STORE_PASSWORD = "of-the-stores"
PAIR = ("-genkeypair", "-keyalg", "RSA", "-keysize", "2048", "-validity", "2")


class SecureBroker:
    def __init__(self, folder: Path, user: str, password: str) -> None:
        self.folder, self.user, self.password = folder, user, password
        self.address = f"127.0.0.1:{free_port()}"
        self.inside = f"127.0.0.1:{free_port()}"
        self.ca = folder / "ca.pem"
        self._controller = f"127.0.0.1:{free_port()}"
        self._process: Process | None = None

    def __enter__(self) -> Self:
        self._certificates()
        properties = self.folder / "server.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in self._properties().items()), "utf-8")
        scram = f"SCRAM-SHA-512=[name={self.user},password={self.password}]"
        cluster = urlsafe_b64encode(bytes(range(16))).decode().rstrip("=")
        _done(
            *java_command("broker", 64, "kafka.tools.StorageTool", "format", "--cluster-id", cluster),
            *("--config", str(properties), "--add-scram", scram),
        )
        command = java_command("broker", 400, "kafka.Kafka", str(properties))
        self._process = Process("secure broker", command, self.folder / "broker.log")
        self._process.wait_until(self._answers, WAIT_SECONDS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        self._process.stop(20)

    def administer(self, page: str) -> None:
        admin = KafkaAdminClient(bootstrap_servers=[self.inside])
        for program, options in documented(page):
            if program == "kafka-topics.sh":
                configs = dict(pair.split("=", 1) for pair in options.config)
                wanted = {"num_partitions": options.partitions, "replication_factor": 1, "configs": configs}
                admin.create_topics({options.topic[0]: wanted}, wait_for_metadata=True)
            else:
                admin.create_acls(list(_rights(options)))
        admin.close()

    def add_user(self, name: str, password: str) -> None:
        admin = KafkaAdminClient(bootstrap_servers=[self.inside])
        admin.alter_user_scram_credentials([UserScramCredentialUpsertion(name, ScramMechanism.SCRAM_SHA_512, password)])
        admin.close()

    def allow_all(self, name: str) -> None:
        resources = ((ResourceType.TOPIC, "*"), (ResourceType.GROUP, "*"), (ResourceType.CLUSTER, "kafka-cluster"))
        admin = KafkaAdminClient(bootstrap_servers=[self.inside])
        admin.create_acls(
            [
                ACL(f"User:{name}", "*", ACLOperation.ALL, ACLPermissionType.ALLOW, ResourcePattern(kind, which))
                for kind, which in resources
            ]
        )
        admin.close()

    def _answers(self) -> bool:
        try:
            client = KafkaAdminClient(bootstrap_servers=[self.inside], bootstrap_timeout_ms=1000)
        except KafkaError:
            return False
        client.close()
        return True

    def _certificates(self) -> None:
        authority(self.folder, "ca")
        ca, broker = self.folder / "ca.p12", self.folder / "broker.p12"
        _keytool(broker, *PAIR, "-alias", "broker", "-dname", "CN=broker")
        request, signed = self.folder / "broker.csr", self.folder / "broker.pem"
        _keytool(broker, "-certreq", "-alias", "broker", "-file", str(request))
        files = ("-infile", str(request), "-outfile", str(signed), "-rfc")
        _keytool(ca, "-gencert", "-alias", "ca", *files, "-validity", "2", "-ext", "san=ip:127.0.0.1")
        _keytool(broker, "-importcert", "-noprompt", "-alias", "ca", "-file", str(self.ca))
        _keytool(broker, "-importcert", "-noprompt", "-alias", "broker", "-file", str(signed))

    def _properties(self) -> dict[str, str]:
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{self._controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"SASL_SSL://{self.address},INSIDE://{self.inside},CONTROLLER://{self._controller}",
            "listener.security.protocol.map": "SASL_SSL:SASL_SSL,INSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "INSIDE",
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": (
                "org.apache.kafka.common.security.scram.ScramLoginModule required;"
            ),
            "ssl.keystore.location": str(self.folder / "broker.p12"),
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.password": STORE_PASSWORD,
            "ssl.key.password": STORE_PASSWORD,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "log.dirs": str(self.folder / "data"),
            "auto.create.topics.enable": "false",
            "offsets.topic.num.partitions": "1",
            "offsets.topic.replication.factor": "1",
            "group.initial.rebalance.delay.ms": "0",
            "log.cleaner.dedupe.buffer.size": "4194304",
        }


def authority(folder: Path, name: str) -> Path:
    store, certificate = folder / f"{name}.p12", folder / f"{name}.pem"
    _keytool(store, *PAIR, "-alias", "ca", "-dname", f"CN={name}", "-ext", "bc=ca:true", "-ext", "ku=keyCertSign")
    _keytool(store, "-exportcert", "-rfc", "-alias", "ca", "-file", str(certificate))
    return certificate


def documented(page: str) -> Iterator[tuple[str, argparse.Namespace]]:
    parser = argparse.ArgumentParser(exit_on_error=False)
    for flag in ("--create", "--add", "--cluster"):
        parser.add_argument(flag, action="store_true")
    for name in ("--topic", "--group", "--config", "--operation"):
        parser.add_argument(name, action="append", default=[])
    parser.add_argument("--bootstrap-server")
    parser.add_argument("--partitions", type=int)
    parser.add_argument("--allow-principal")
    parser.add_argument("--resource-pattern-type", default="literal")
    for line in page.replace("\\\n", " ").splitlines():
        if line.startswith(("kafka-topics.sh", "kafka-acls.sh")):
            program, *arguments = shlex.split(line)
            yield program, parser.parse_args(arguments)


def _rights(options: argparse.Namespace) -> Iterator[ACL]:
    resources = [(ResourceType.TOPIC, name) for name in options.topic]
    resources += [(ResourceType.GROUP, name) for name in options.group]
    resources += [(ResourceType.CLUSTER, "kafka-cluster")] if options.cluster else []
    pattern = ACLResourcePatternType[options.resource_pattern_type.upper()]
    for kind, name in resources:
        for operation in options.operation:
            operations = {o.name.replace("_", ""): o for o in ACLOperation}[operation.upper()]
            resource = ResourcePattern(kind, name, pattern)
            yield ACL(options.allow_principal, "*", operations, ACLPermissionType.ALLOW, resource)


def _keytool(store: Path, *arguments: str) -> None:
    _done("keytool", *arguments, "-keystore", str(store), "-storetype", "PKCS12", "-storepass", STORE_PASSWORD)


def _done(*command: str) -> None:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
