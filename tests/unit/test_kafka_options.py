"""Security options with Java's names become kafka-python's options."""

from __future__ import annotations

import http.server
import json
import os
import re
import ssl
import subprocess
import threading
import tomllib
from base64 import urlsafe_b64decode
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar
from urllib.parse import parse_qsl, urlsplit

import pytest
from kafka.net.sasl.msk import AwsMskIamClient

from clienthealth.model.errors import ServiceError, SettingsError
from clienthealth.ops.cli import main
from clienthealth.platform import logins
from clienthealth.platform.jars import java
from clienthealth.platform.kafka import _reason, producer
from clienthealth.platform.logins import java_options, python_options
from clienthealth.settings import KafkaSettings, Settings
from clienthealth.spark.session import driver_options, submit_options
from clienthealth.spark.topics import connection
from tests.support.settings_file import write_settings


def test_sasl_over_tls() -> None:
    options = python_options(
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
            'username="monitor" password="a\\"b";',
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": "ca.pem",
            "ssl.endpoint.identification.algorithm": "",
            "request.timeout.ms": "5000",
        }
    )
    assert options == {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "monitor",
        "sasl_plain_password": 'a"b',
        "ssl_cafile": "ca.pem",
        "ssl_check_hostname": False,
        "request_timeout_ms": 5000,
    }


def test_key_and_certificate_may_share_a_file() -> None:
    options = {"ssl.keystore.type": "PEM", "ssl.keystore.location": "me.pem", "ssl.key.password": "x"}
    assert python_options(options) == {"ssl_certfile": "me.pem", "ssl_keyfile": "me.pem", "ssl_password": "x"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ssl.truststore.type", "BKS-s3cret"),
        ("sasl.jaas.config", "com.example.Other required token=s3cret;"),
        ("request.timeout.ms", "s3cret"),
        ("ssl.cipher.suites", "s3cret"),
        ("security.protocol", "SASL-s3cret"),
        ("sasl.mechanism", "s3cret"),
        ("sasl.login.callback.handler.class", "com.example.s3cret"),
        ("ssl.truststore.location", "/no/such/s3cret"),
    ],
)
def test_what_cannot_be_passed_on_is_an_error_without_the_value(name: str, value: str) -> None:
    login = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN}
    with pytest.raises(SettingsError) as raised:
        python_options({**login, "ssl.truststore.type": "JKS", "ssl.truststore.location": __file__, name: value})
    assert name in str(raised.value)
    assert "s3cret" not in str(raised.value)


def test_options_are_checked_before_a_connection_is_tried() -> None:
    settings = Settings(kafka=KafkaSettings("127.0.0.1:1", {"no.such.option": "x"}))
    with pytest.raises(SettingsError, match=r"no\.such\.option"):
        producer(settings)


PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";'
CHOICE = "must be one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL; all programs refuse these options"
MECHANISMS = "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, AWS_MSK_IAM, GSSAPI"
BUT = "every program except the monitor refuses these options"
TOKENS = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.token.endpoint.url": "https://id.example.org/token",
}
KERBEROS = {"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}
MSK = {"security.protocol": "SASL_SSL", "sasl.mechanism": "AWS_MSK_IAM"}
REFUSED = {
    "SASL-SSL": ({"security.protocol": "SASL-SSL"}, f"security.protocol {CHOICE}"),
    "a letter too few": (
        {"security.protocl": "SASL_SSL"},
        "'security.protocl' is not supported (is security.protocol meant?); supported options: ",
    ),
    "Kerberos": (KERBEROS, f"sasl.mechanism GSSAPI needs the Python package gssapi; {BUT}"),
    "Amazon": (MSK, f"sasl.mechanism AWS_MSK_IAM needs the Python package aws-msk-iam-sasl-signer; {BUT}"),
    "Amazon in plain text": (
        MSK | {"security.protocol": "SASL_PLAINTEXT"},
        "sasl.mechanism AWS_MSK_IAM needs security.protocol SASL_SSL; all programs refuse these options",
    ),
    "a store that is not there": (
        {"ssl.truststore.type": "JKS", "ssl.truststore.location": "/etc/ca.jks"},
        "ssl.truststore.location names a file that cannot be read; all programs refuse these options",
    ),
    "a store of Java": (
        {"ssl.truststore.type": "JKS", "ssl.truststore.location": __file__},
        f"ssl.truststore.type JKS needs the Python package cryptography; {BUT}",
    ),
    "another kind of store": (
        {"ssl.keystore.type": "BKS", "ssl.keystore.location": __file__},
        f"ssl.keystore.type must be one of PEM, PKCS12, JKS; {BUT}",
    ),
    "no mechanism": (
        {"security.protocol": "SASL_SSL"},
        f"security.protocol SASL_SSL needs sasl.mechanism ({MECHANISMS}); all programs refuse these options",
    ),
    "no user": (
        {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"},
        f"sasl.mechanism PLAIN needs a sasl.jaas.config that begins with {PLAIN.split()[0]} and contains username and "
        "password; all programs refuse these options",
    ),
    "another's login": (
        {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": PLAIN},
        "sasl.mechanism SCRAM-SHA-256 needs a sasl.jaas.config that begins with org.apache.kafka.common.security.scram",
    ),
    "no client": (
        TOKENS,
        "sasl.mechanism OAUTHBEARER needs a sasl.jaas.config that begins with org.apache.kafka.common.security.",
    ),
    "no endpoint": (
        {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"},
        "sasl.mechanism OAUTHBEARER needs sasl.oauthbearer.token.endpoint.url to be an https, http or file URL",
    ),
}


def checked(folder: Path, options: dict[str, str], capsys: pytest.CaptureFixture[str]) -> tuple[object, str]:
    config = write_settings(folder, {"kafka.options": {json.dumps(name): value for name, value in options.items()}})
    with pytest.raises(SystemExit) as ended:
        main(["check-config", "--config", str(config)])
    return ended.value.code, capsys.readouterr().err


@pytest.mark.parametrize("what", REFUSED)
def test_check_config_refuses_what_a_program_would(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(logins, "find_spec", lambda name: None)
    options, sentence = REFUSED[what]
    code, output = checked(tmp_path, options, capsys)
    assert code == 2 and f"[kafka] options: {sentence}" in output, output


def test_check_config_refuses_nothing_that_all_programs_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = find_spec
    monkeypatch.setattr(logins, "find_spec", lambda name: name == "gssapi" or found(name))
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    for options in (
        {"security.protocol": "sasl_ssl", "sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN},
        {"security.protocol": "SSL", "ssl.truststore.type": "PEM", "ssl.truststore.location": "/etc/ca.pem"},
        TOKENS | {"sasl.jaas.config": f'{module} required clientId="c" clientSecret="s";'},
        TOKENS | {"sasl.oauthbearer.token.endpoint.url": "file:///run/token"},
        KERBEROS,
        MSK,
    ):
        assert checked(tmp_path, options, capsys) == (0, "")


def test_the_logins_of_the_page_are_taken_by_all_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logins, "find_spec", lambda name: name)
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    page = (Path(__file__).parents[2] / "deploy/secure.md").read_text("utf-8")
    shown = [tomllib.loads(block) for block in re.findall(r"^```toml\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)]
    options = [block["kafka"]["options"] for block in shown if "options" in block.get("kafka", {})]
    assert {one["sasl.mechanism"] for one in options} == {"SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM", "GSSAPI"}
    for one in options:
        assert java_options(one).items() >= one.items()
        assert python_options(one)["security_protocol"] == "SASL_SSL"


def test_spark_is_given_what_a_login_needs_beside_the_settings() -> None:
    tokens = TOKENS | {"sasl.oauthbearer.token.endpoint.url": "file:///run/token"}
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLogin"
    assert java_options(tokens) == tokens | {
        "sasl.jaas.config": f"{module}Module required;",
        "sasl.login.callback.handler.class": f"{module}CallbackHandler",
    }
    settings = Settings(kafka=KafkaSettings(options=tokens))
    flag = "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=file:///run/token"
    assert driver_options(settings)["spark.driver.extraJavaOptions"].split()[-1] == flag
    for part in ("driver", "executor"):
        assert flag in submit_options(settings, cluster=True)[f"spark.{part}.extraJavaOptions"].split()


class Endpoint(http.server.BaseHTTPRequestHandler):
    asked: ClassVar[list[tuple[str, str]]] = []
    seconds = 3600

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.asked.append((self.headers["Authorization"], body))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"access_token": f"token-{len(self.asked)}", "expires_in": self.seconds}).encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.parametrize(("seconds", "tokens"), [(3600, ["token-1", "token-1"]), (30, ["token-1", "token-2"])])
def test_a_token_is_asked_for_until_shortly_before_it_ends(
    seconds: int, tokens: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Endpoint, "asked", [])
    monkeypatch.setattr(Endpoint, "seconds", seconds)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Endpoint) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
        login = f'{module} required clientId="c" clientSecret="s\\"1" scope="kafka read" extension_cluster="lkc-1";'
        url = f"http://127.0.0.1:{server.server_port}/token"
        options = python_options(TOKENS | {"sasl.jaas.config": login, "sasl.oauthbearer.token.endpoint.url": url})
        provider = options["sasl_oauth_token_provider"]
        assert (options["sasl_mechanism"], provider.extensions()) == ("OAUTHBEARER", {"cluster": "lkc-1"})
        assert [provider.token(), provider.token()] == tokens
        server.shutdown()
    # YzpzIjE= is the base64 of `c:s"1`: client id and secret.
    assert set(Endpoint.asked) == {("Basic YzpzIjE=", "grant_type=client_credentials&scope=kafka+read")}
    with pytest.raises(ServiceError, match="no token: "):
        python_options(TOKENS | {"sasl.jaas.config": login, "sasl.oauthbearer.token.endpoint.url": url})[
            "sasl_oauth_token_provider"
        ].token()


def test_a_token_in_a_file_is_read_each_time(tmp_path: Path) -> None:
    file = tmp_path / "the token"
    options = python_options(TOKENS | {"sasl.oauthbearer.token.endpoint.url": file.as_uri()})
    for token in ("first", "second"):
        file.write_text(f"{token}\n")
        assert options["sasl_oauth_token_provider"].token() == token


def test_what_is_signed_for_amazon_is_what_kafka_python_signs_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "a/session+token=")
    options = python_options(MSK)
    token = options["sasl_oauth_token_provider"].token()
    url = urlsplit(urlsafe_b64decode(token + "==").decode())
    signed = dict(parse_qsl(url.query))
    client = AwsMskIamClient(
        url.netloc, "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "eu-west-1", "a/session+token="
    )
    client.timestamp, client.datestamp = signed["X-Amz-Date"], signed["X-Amz-Date"][:8]
    assert url.netloc == "kafka.eu-west-1.amazonaws.com"
    assert signed["Action"] == "kafka-cluster:Connect"
    assert signed["X-Amz-Signature"] == json.loads(client.first_message())["x-amz-signature"]


@pytest.mark.parametrize(
    ("login", "asked"),
    [
        ('awsProfileName="health"', ("from_profile", "eu-west-1", "health")),
        (
            'awsRoleArn="arn:aws:iam::1:role/r"',
            ("from_role_arn", "eu-west-1", "arn:aws:iam::1:role/r", "kafka-client-health"),
        ),
    ],
)
def test_amazon_is_signed_for_as_a_profile_or_a_role(
    login: str, asked: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    for name in ("from_profile", "from_role_arn"):
        signer = partial(lambda name, *given: ("/".join((name, *given)), 0), name)
        monkeypatch.setattr(f"aws_msk_iam_sasl_signer.MSKAuthTokenProvider.generate_auth_token_{name}", signer)
    options = MSK | {"sasl.jaas.config": f"software.amazon.msk.auth.iam.IAMLoginModule required {login};"}
    assert python_options(options)["sasl_oauth_token_provider"].token() == "/".join(asked)


def test_a_keytab_is_what_kerberos_takes_the_principal_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", "")
    monkeypatch.setattr(logins, "find_spec", lambda name: name)
    login = 'com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab="/etc/h.keytab" principal="h";'
    options = KERBEROS | {"sasl.jaas.config": login, "sasl.kerberos.service.name": "broker"}
    assert python_options(options) == {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "GSSAPI",
        "sasl_kerberos_service_name": "broker",
    }
    assert os.environ["KRB5_CLIENT_KTNAME"] == "/etc/h.keytab"


@pytest.mark.parametrize("kind", ["PKCS12", pytest.param("JKS", marks=pytest.mark.long)])
@pytest.mark.parametrize("declared", ["JKS", "PKCS12"])
def test_java_takes_either_kind_of_store_for_the_other_and_so_do_we(kind: str, declared: str, tmp_path: Path) -> None:
    store = tmp_path / "store"
    keytool = ("-keystore", str(store), "-storetype", kind, "-storepass", "s3cret-1", "-keypass", "s3cret-1")
    pair = ("-genkeypair", "-keyalg", "RSA", "-alias", "me", "-dname", "CN=me", "-ext", "bc=ca:true")
    subprocess.run([str(Path(java()).resolve().with_name("keytool")), *pair, *keytool], check=True, capture_output=True)
    options = {
        f"ssl.{name}.{part}": value
        for name in ("truststore", "keystore")
        for part, value in {"location": str(store), "type": declared, "password": "s3cret-1"}.items()
    }
    context = python_options(options)["ssl_context"]
    assert [dict(part[0] for part in one["subject"]) for one in context.get_ca_certs()] == [{"commonName": "me"}]
    assert (context.check_hostname, context.verify_mode) == (True, ssl.CERT_REQUIRED)
    with pytest.raises(SettingsError, match="check the file, its type and password") as raised:
        python_options(options | {"ssl.keystore.password": "s3cret-2"})
    assert "s3cret" not in str(raised.value)


def test_the_options_of_further_clusters_are_checked_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "other").mkdir()
    other = write_settings(tmp_path / "other", {"kafka.options": {'"security.protocol"': "SASL-SSL"}})
    config = write_settings(tmp_path, {"groups.clusters": {"other": str(other)}})
    with pytest.raises(SystemExit):
        main(["check-config", "--config", str(config)])
    assert f"{other}: [kafka] options: security.protocol {CHOICE}" in capsys.readouterr().err


def test_the_monitor_refuses_a_protocol_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"security\.protocol must be one of PLAINTEXT"):
        connection(Settings(kafka=KafkaSettings(options={"security.protocol": "SASL-SSL"})))


def test_our_clients_in_spark_have_one_name_and_are_not_among_those_that_push() -> None:
    options = connection(Settings(kafka=KafkaSettings(options={"security.protocol": "SSL"})))
    assert options["kafka.client.id"] == "kafka-health-monitor"
    assert options["kafka.enable.metrics.push"] == "false"
    assert options["kafka.security.protocol"] == "SSL"


@pytest.mark.parametrize(
    ("failures", "reason"),
    [
        (["socket disconnected", "Connection timed out"], "the broker closed the connection"),
        (["Connection timed out", "Connection reset by peer"], "the broker closed the connection"),
        (["UnsupportedSaslMechanism", "socket disconnected"], "the broker does not support this sasl.mechanism"),
        (["Request timed out after 290 ms"], "Request timed out after 290 ms"),
    ],
)
def test_the_most_informative_attempt_is_the_reason(failures: list[str], reason: str) -> None:
    assert (_reason(failures) or "").startswith(reason)
