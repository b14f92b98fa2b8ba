"""Test all ways to log in to Kafka, from Python and from Spark."""

from __future__ import annotations

import http.server
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.hazmat.primitives.serialization.pkcs12 import load_key_and_certificates

from clienthealth.configuration import load
from clienthealth.model.errors import ServiceError
from clienthealth.ops.initialise import Answers
from clienthealth.platform.kafka import consumer, producer
from clienthealth.settings import Settings
from deploy.demo.broker import Broker
from deploy.demo.processes import Process, free_port
from deploy.demo.stack import QUICK_START
from deploy.demo.topics import create_ours
from tests.kafka.secure_broker import PAIR, STORE_PASSWORD, authority
from tests.support.waiting import WAIT_SECONDS, eventually

pytestmark = pytest.mark.long

KAFKA_HEALTH = str(Path(sys.executable).with_name("kafka-health"))
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearer"
KERBEROS_5 = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"
ISSUER = "https://id.example.org"
REALM = "TEST"
STORE = ("-storetype", "PKCS12", "-storepass", STORE_PASSWORD)


class Identity(http.server.BaseHTTPRequestHandler):
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    def do_GET(self) -> None:
        numbers = self.key.public_key().public_numbers()
        key = {"kty": "RSA", "kid": "1", "alg": "RS256", "use": "sig", "n": number(numbers.n), "e": number(numbers.e)}
        self._answer(200, {"keys": [key]})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        right = self.headers["Authorization"] == "Basic " + b64encode(b"health:s3cret").decode()
        if right and b"grant_type=client_credentials" in body and b"scope=kafka" in body:
            self._answer(200, {"access_token": self.token(), "token_type": "Bearer", "expires_in": 300})
        else:
            self._answer(401, {"error": "invalid_client"})

    @classmethod
    def token(cls) -> str:
        now = int(time.time())
        claims = {"sub": "health", "iss": ISSUER, "aud": "kafka", "iat": now, "exp": now + 3600, "scope": "kafka"}
        parts = [coded(json.dumps(part).encode()) for part in ({"alg": "RS256", "kid": "1", "typ": "JWT"}, claims)]
        signature = cls.key.sign(".".join(parts).encode(), padding.PKCS1v15(), hashes.SHA256())
        return ".".join((*parts, coded(signature)))

    def _answer(self, code: int, document: object) -> None:
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(document).encode())

    def log_message(self, *_: object) -> None:
        pass


def coded(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")


def number(value: int) -> str:
    return coded(value.to_bytes((value.bit_length() + 7) // 8))


@contextmanager
def broker_with(
    folder: Path, mechanism: str, jaas: str, more: Mapping[str, str], flags: str = "", protocol: str = "SASL_PLAINTEXT"
) -> Iterator[str]:
    port, inside, controller = free_port(), free_port(), free_port()
    here = f"listener.name.login.{mechanism.lower()}"
    properties = {
        "listeners": f"PLAINTEXT://127.0.0.1:{inside},LOGIN://localhost:{port},CONTROLLER://127.0.0.1:{controller}",
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,LOGIN:{protocol},CONTROLLER:PLAINTEXT",
        **(
            {"listener.name.login.sasl.enabled.mechanisms": mechanism, f"{here}.sasl.jaas.config": jaas} if jaas else {}
        ),
        **{name.replace("HERE", here): value for name, value in more.items()},
    }
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("JAVA_TOOL_OPTIONS", flags)
        broker = Broker(folder / "broker", properties, port=inside, controller_port=controller).start()
    try:
        create_ours(Settings(kafka=broker.kafka))
        yield f"localhost:{port}"
    finally:
        broker.stop()


def groups_are_listed(answers: Answers, folder: Path, environment: Mapping[str, str]) -> Path:
    file = folder / "health.toml"
    text = answers.text().replace("[monitor]", "[monitor]\ntrigger_seconds = 1\nmetrics_port = 0")
    file.write_text(text, "utf-8")
    done = subprocess.run(
        [KAFKA_HEALTH, "export", "groups", "--once", "--config", str(file)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "s3cret" not in done.stdout + done.stderr
    return file


def all_programs_work(answers: Answers, folder: Path, environment: Mapping[str, str]) -> None:
    file = groups_are_listed(answers, folder, environment)
    settings = load(str(file), {})
    with closing(producer(settings)) as writer:
        monitor = Process(
            "monitor",
            [KAFKA_HEALTH, "monitor", "--config", str(file)],
            folder / "monitor.log",
            environment={**QUICK_START, **environment},
        )
        rejects = consumer(settings, settings.topics.rejects, auto_offset_reset="earliest")
        try:

            def rejected() -> bool:
                assert monitor.alive, monitor.log.read_text("utf-8")[-3000:]
                writer.send(settings.topics.metrics[0], b"{}").get(WAIT_SECONDS)
                return bool(rejects.poll(1000))

            eventually(rejected)
        finally:
            monitor.stop(WAIT_SECONDS)
            rejects.close()
    assert "s3cret" not in monitor.log.read_text("utf-8")


def test_a_password_in_plain_text(tmp_path: Path) -> None:
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_health="s3cret";'
    with broker_with(tmp_path, "PLAIN", jaas, {}) as address:
        answers = Answers(address, "SASL_PLAINTEXT", "PLAIN", "health", "s3cret", state=str(tmp_path))
        with pytest.raises(ServiceError):
            consumer(replace(answers, password="wrong").settings(), bootstrap_timeout_ms=3000)
        all_programs_work(answers, tmp_path, {})


@pytest.mark.parametrize("way", ["client credentials", "a file"])
def test_tokens(way: str, tmp_path: Path) -> None:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Identity) as identity:
        threading.Thread(target=identity.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{identity.server_port}"
        broker = {
            "HERE.sasl.server.callback.handler.class": f"{OAUTH}ValidatorCallbackHandler",
            "sasl.oauthbearer.jwks.endpoint.url": f"{url}/keys",
            "sasl.oauthbearer.expected.audience": "kafka",
            "sasl.oauthbearer.expected.issuer": ISSUER,
        }
        flags = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={url}/keys"
        file = tmp_path / "token"
        file.write_text(Identity.token(), "utf-8")
        with broker_with(tmp_path, "OAUTHBEARER", f"{OAUTH}LoginModule required;", broker, flags) as address:
            answers = Answers(address, "SASL_PLAINTEXT", "OAUTHBEARER", state=str(tmp_path), token_url=file.as_uri())
            if way == "client credentials":
                answers = Answers(
                    *(address, "SASL_PLAINTEXT", "OAUTHBEARER", "health", "s3cret"),
                    state=str(tmp_path),
                    token_url=f"{url}/token",
                    scope="kafka",
                )
            all_programs_work(answers, tmp_path, {})
        identity.shutdown()


def test_certificates_in_stores_of_each_kind(tmp_path: Path) -> None:
    ca = authority(tmp_path, "ca")
    for name in ("broker", "client"):
        pair(tmp_path, name)
    for store in ("ca", "client"):
        keytool("-importkeystore", "-noprompt", *as_jks(tmp_path / f"{store}.p12", tmp_path / f"{store}.jks"))
    trusted = tmp_path / "trusted.p12"
    keytool("-importcert", "-noprompt", "-alias", "ca", "-file", str(ca), "-keystore", str(trusted), *STORE)
    pem = tmp_path / "client-and-key.pem"
    key, own, others = load_key_and_certificates((tmp_path / "client.p12").read_bytes(), STORE_PASSWORD.encode())
    assert key and own
    parts = [key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())]
    pem.write_bytes(b"".join([*parts, *(one.public_bytes(Encoding.PEM) for one in (own, *others))]))
    here = "listener.name.login.ssl"
    broker = {
        f"{here}.client.auth": "required",
        f"{here}.keystore.location": f"{tmp_path}/broker.p12",
        f"{here}.truststore.location": f"{tmp_path}/ca.jks",
        **{f"{here}.{name}.password": STORE_PASSWORD for name in ("keystore", "key", "truststore")},
    }
    files = {"PEM": (ca, pem), "PKCS12": (trusted, tmp_path / "client.p12"), "mixed": (ca, tmp_path / "client.jks")}
    with broker_with(tmp_path, "NONE", "", broker, protocol="SSL") as address:
        for ca_file, client_file in files.values():
            answers = Answers(
                *(address, "SSL"),
                ca_file=str(ca_file),
                client_file=str(client_file),
                state=str(tmp_path),
                store_password=STORE_PASSWORD,
            )
            groups_are_listed(answers, tmp_path, {})
        with pytest.raises(ServiceError):
            consumer(replace(answers, client_file="").settings(), bootstrap_timeout_ms=3000)
        all_programs_work(answers, tmp_path, {})


def pair(folder: Path, name: str) -> None:
    store, request, signed = (str(folder / f"{name}.{ending}") for ending in ("p12", "csr", "pem"))
    mine = ("-keystore", store, *STORE)
    keytool(*PAIR, "-alias", name, "-dname", f"CN={name}", *mine)
    keytool("-certreq", "-alias", name, "-file", request, *mine)
    files = ("-infile", request, "-outfile", signed, "-rfc", "-ext", "san=dns:localhost,ip:127.0.0.1")
    keytool("-gencert", "-alias", "ca", *files, "-keystore", str(folder / "ca.p12"), *STORE)
    for alias, file in (("ca", str(folder / "ca.pem")), (name, signed)):
        keytool("-importcert", "-noprompt", "-alias", alias, "-file", file, *mine)


def as_jks(source: Path, target: Path) -> tuple[str, ...]:
    passwords = ("-srcstorepass", STORE_PASSWORD, "-deststorepass", STORE_PASSWORD)
    return ("-srckeystore", str(source), "-destkeystore", str(target), "-deststoretype", "JKS", *passwords)


def keytool(*arguments: str) -> None:
    done = subprocess.run(("keytool", *arguments), stdin=subprocess.DEVNULL, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(
    shutil.which("krb5kdc", path="/usr/sbin:/usr/bin:/sbin") is None,
    reason="apt-get install krb5-kdc krb5-admin-server libkrb5-dev",
)
def test_kerberos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("gssapi", reason="pip install gssapi")
    with kdc(tmp_path) as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        flags = environment["JAVA_TOOL_OPTIONS"]
        jaas = f'{KERBEROS_5} keyTab="{tmp_path}/kafka.keytab" principal="kafka/localhost@{REALM}";'
        with broker_with(tmp_path, "GSSAPI", jaas, {"sasl.kerberos.service.name": "kafka"}, flags) as address:
            answers = Answers(
                *(address, "SASL_PLAINTEXT", "GSSAPI", f"health@{REALM}"),
                state=str(tmp_path),
                keytab=f"{tmp_path}/health.keytab",
            )
            all_programs_work(answers, tmp_path, environment)


@contextmanager
def kdc(folder: Path) -> Iterator[dict[str, str]]:
    port = free_port()
    options = (
        "dns_lookup_kdc = false",
        "rdns = false",
        "dns_canonicalize_hostname = false",
        "udp_preference_limit = 1",
    )
    (folder / "krb5.conf").write_text(
        "\n".join(("[libdefaults]", f"default_realm = {REALM}", *options, "[realms]", f"{REALM} = {{", ""))
        + f"kdc = 127.0.0.1:{port}\n}}\n"
    )
    (folder / "kdc.conf").write_text(
        f'[kdcdefaults]\nkdc_listen = ""\nkdc_tcp_listen = 127.0.0.1:{port}\n[realms]\n{REALM} = {{\n'
        f"database_name = {folder}/principals\nkey_stash_file = {folder}/stash\n}}\n"
    )
    environment = {
        "KRB5_CONFIG": f"{folder}/krb5.conf",
        "KRB5_KDC_PROFILE": f"{folder}/kdc.conf",
        "KRB5CCNAME": f"FILE:{folder}/tickets",
        "JAVA_TOOL_OPTIONS": f"-Djava.security.krb5.conf={folder}/krb5.conf",
        "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin",
    }

    def run(*command: str) -> None:
        done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    run("/usr/sbin/kdb5_util", "create", "-s", "-r", REALM, "-P", "of-the-kdc")
    for name, file in (("kafka/localhost", "kafka"), ("health", "health")):
        run("/usr/sbin/kadmin.local", "-q", f"addprinc -randkey {name}")
        run("/usr/sbin/kadmin.local", "-q", f"ktadd -norandkey -k {folder}/{file}.keytab {name}")
    server = Process("kdc", ["/usr/sbin/krb5kdc", "-n"], folder / "kdc.log", environment=environment)
    try:
        eventually(lambda: "commencing operation" in server.log.read_text("utf-8") or server.alive)
        yield environment
    finally:
        server.stop(10)
