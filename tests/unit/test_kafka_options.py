"""Security options in Java's names reach kafka-python in its own; secrets stay out of errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clienthealth.model.errors import SettingsError
from clienthealth.ops.cli import main
from clienthealth.platform import kafka
from clienthealth.platform.kafka import _reason, producer, python_options
from clienthealth.settings import KafkaSettings, Settings
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
    assert python_options({"ssl.keystore.location": "me.pem", "ssl.key.password": "x"}) == {
        "ssl_certfile": "me.pem",
        "ssl_keyfile": "me.pem",
        "ssl_password": "x",
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ssl.truststore.type", "JKS-s3cret"),
        ("sasl.jaas.config", "com.example.Other required token=s3cret;"),
        ("request.timeout.ms", "s3cret"),
        ("ssl.cipher.suites", "s3cret"),
        ("security.protocol", "SASL-s3cret"),
        ("sasl.mechanism", "s3cret"),
    ],
)
def test_what_cannot_be_passed_on_is_an_error_without_the_value(name: str, value: str) -> None:
    with pytest.raises(SettingsError) as raised:
        python_options({name: value})
    assert name in str(raised.value)
    assert "s3cret" not in str(raised.value)


def test_options_are_checked_before_a_connection_is_tried() -> None:
    settings = Settings(kafka=KafkaSettings("127.0.0.1:1", {"no.such.option": "x"}))
    with pytest.raises(SettingsError, match=r"no\.such\.option"):
        producer(settings)


CHOICE = "must be one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL; refused by all programs"
REFUSED = {
    "SASL-SSL": ({"security.protocol": "SASL-SSL"}, f"security.protocol {CHOICE}"),
    "a letter too few": (
        {"security.protocl": "SASL_SSL"},
        "'security.protocl' is not supported (is security.protocol meant?); known are ",
    ),
    "Kerberos": (
        {"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"},
        "sasl.mechanism must be one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512; GSSAPI needs the Python package gssapi; "
        "refused by every program but the monitor",
    ),
    "a key store of Java": (
        {"ssl.truststore.type": "JKS", "ssl.truststore.location": "/etc/ca.jks"},
        "ssl.truststore.type must be PEM; Java key stores are not read; refused by every program but the monitor",
    ),
    "a store without its type": (
        {"ssl.keystore.location": "/etc/me.pem"},
        "ssl.keystore.location needs ssl.keystore.type = PEM: without it the monitor takes the file for a",
    ),
    "no mechanism": (
        {"security.protocol": "SASL_SSL"},
        "security.protocol SASL_SSL needs sasl.mechanism (PLAIN, SCRAM-SHA-256, SCRAM-SHA-512); refused by ",
    ),
    "no user": (
        {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"},
        "security.protocol SASL_SSL needs sasl.jaas.config; refused by every program but the monitor",
    ),
}


def checked(folder: Path, options: dict[str, str], capsys: pytest.CaptureFixture[str]) -> tuple[object, str]:
    """The exit code of check-config, and what it says is wrong."""
    config = write_settings(folder, {"kafka.options": {json.dumps(name): value for name, value in options.items()}})
    with pytest.raises(SystemExit) as ended:
        main(["check-config", "--config", str(config)])
    return ended.value.code, capsys.readouterr().err


@pytest.mark.parametrize("what", REFUSED)
def test_check_config_refuses_what_a_program_would(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(kafka, "find_spec", lambda name: None)
    options, sentence = REFUSED[what]
    code, said = checked(tmp_path, options, capsys)
    assert code == 2 and f"[kafka] options: {sentence}" in said, said


def test_check_config_refuses_nothing_that_all_programs_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(kafka, "find_spec", lambda name: name)
    login = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";'
    for options in (
        {"security.protocol": "sasl_ssl", "sasl.mechanism": "PLAIN", "sasl.jaas.config": login},
        {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI"},
        {"security.protocol": "SSL", "ssl.truststore.type": "PEM", "ssl.truststore.location": "/etc/ca.pem"},
    ):
        assert checked(tmp_path, options, capsys) == (0, "")


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
        (["socket disconnected", "Connection timed out"], "it closed the connection"),
        (["Connection timed out", "Connection reset by peer"], "it closed the connection"),
        (["UnsupportedSaslMechanism", "socket disconnected"], "it does not know this sasl.mechanism"),
        (["Request timed out after 290 ms"], "Request timed out after 290 ms"),
    ],
)
def test_the_attempt_that_tells_most_is_the_reason(failures: list[str], reason: str) -> None:
    assert (_reason(failures) or "").startswith(reason)
