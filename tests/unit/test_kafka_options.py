"""Security options in Java's names reach kafka-python in its own; secrets stay out of errors."""

from __future__ import annotations

import pytest

from clienthealth.errors import SettingsError
from clienthealth.platform.kafka import _reason, producer, python_options
from clienthealth.settings import KafkaSettings, Settings


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
