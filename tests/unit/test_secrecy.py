"""No output contains a secret that is planted in a malformed setting."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import logging
import traceback
import typing
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clienthealth.configuration import in_force, load, toml
from clienthealth.model.errors import HealthError, SettingsError
from clienthealth.modes import modes
from clienthealth.ops import cli
from clienthealth.ops.cli import _stderr
from clienthealth.ops.doctor import records
from clienthealth.platform.logins import python_options
from clienthealth.platform.secrecy import HIDDEN, redacted
from clienthealth.platform.web import SECURITY_HEADERS
from clienthealth.settings import KafkaSettings, Settings

PLANTED = "s3cr3t-0f-0urs"
KEYS = [
    (section.name, key.name)
    for section in dataclasses.fields(Settings)
    if section.name != "modes"
    for key in dataclasses.fields(typing.get_type_hints(Settings)[section.name])
]
MALFORMED = (
    PLANTED,
    f'"{PLANTED}"',
    f"'{PLANTED}",
    f'["{PLANTED}", 1]',
    f'{{ "sasl.jaas.config" = "{PLANTED}"',
    f'{{ "sasl.jaas.config" = {PLANTED} }}',
    f'{{ "ssl.keystore.key" = 1, "{PLANTED}" = 2 }}',
    f'{{ "a" = ["{PLANTED}"] }}',
    f'{{ "a" = {{ "b" = "{PLANTED}" }} }}',
    f"1979-05-27 # {PLANTED}",
    f'"""{PLANTED}',
    "[" * 2_000 + PLANTED,
)


def messages(work: typing.Callable[[], object]) -> Iterator[str]:
    try:
        work()
    except HealthError as error:
        yield str(error)
        yield "".join(traceback.format_exception(error))


@pytest.mark.parametrize(("section", "key"), KEYS, ids=lambda value: str(value))
def test_no_error_of_a_setting_repeats_its_value(section: str, key: str, tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    errors = 0
    for value in MALFORMED:
        variable = {f"KAFKA_HEALTH_{section.upper()}_{key.upper()}": value}
        file.write_text(f"[{section}]\n{key} = {value}\n", "utf-8")
        for message in (*messages(lambda: load(None, variable)), *messages(lambda: load(str(file), {}))):  # noqa: B023
            errors += 1
            assert PLANTED not in message.replace(f"options.{PLANTED}", ""), message
    assert errors


@pytest.mark.parametrize("mode", modes())
def test_no_error_of_a_threshold_repeats_its_value(mode: str, tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    (name, *_) = (field.name for field in dataclasses.fields(modes()[mode].thresholds))
    for text in (f'[modes.{mode}]\n{name} = "{PLANTED}"\n', f'[modes]\n{mode} = "{PLANTED}"\n'):
        file.write_text(text, "utf-8")
        with pytest.raises(SettingsError) as raised:
            load(str(file), {})
        assert PLANTED not in "".join(traceback.format_exception(raised.value))


def test_a_file_that_is_no_text_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_bytes(b'[kafka]\nbootstrap_servers = "\xff' + PLANTED.encode() + b'"\n')
    assert next(messages(lambda: load(str(file), {}))) == f"{file}: not UTF-8"


def test_the_place_of_a_mistake_in_a_file_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(f'[kafka.options]\n"sasl.jaas.config" = {PLANTED}\n', "utf-8")
    assert next(messages(lambda: load(str(file), {}))) == f"{file}: not valid TOML (at line 2, column 22)"


SECRET_OPTIONS = (
    *("sasl.jaas.config", "ssl.keystore.key", "ssl.keystore.password", "ssl.key.password", "ssl.truststore.password"),
    *(
        "sasl.password",
        "sasl.oauthbearer.client.credentials.client.secret",
        "bearer.token",
        "aws.access.key",
        "api_key",
    ),
)
PEM = f"-----BEGIN PRIVATE KEY-----\n{PLANTED}\n-----END PRIVATE KEY-----"
WITHIN = (
    f"https://user:{PLANTED}@grafana.example.org/x",
    f"orders=http://{PLANTED}@10.0.0.1:8778/jolokia",
    f"http://user:a%40{PLANTED}@host",
    f"https://host/hook?api_key={PLANTED}&x=1",
    f"https://host/?access_token={PLANTED}",
    f'ScramLoginModule required username="u" password="{PLANTED} with \\" blanks";',
    f"password = '{PLANTED}'",
    json.dumps({"password": PLANTED, "a": 1}, separators=(",", ":")),
    json.dumps({"sasl.jaas.config": f'required password="{PLANTED}";'}, separators=(",", ":")),
    json.dumps({"config": f'required password="a \\" {PLANTED}";'}),
    json.dumps(json.dumps({"password": PLANTED}, separators=(",", ":"))),
    PEM,
    f"PEM in a line: {PEM}",
)


@pytest.mark.parametrize("option", SECRET_OPTIONS)
def test_options_that_are_secrets_are_hidden_by_name(option: str) -> None:
    settings = Settings(kafka=KafkaSettings(options={option: PLANTED, "security.protocol": "SSL"}))
    text = in_force(settings, changed_only=True)
    assert PLANTED not in text and HIDDEN in text and '"security.protocol" = "SSL"' in text
    for message in messages(lambda: python_options({option: PLANTED})):
        assert PLANTED not in message


@pytest.mark.parametrize("value", WITHIN)
@pytest.mark.parametrize(
    ("section", "key"),
    [
        (section, key)
        for section, key in KEYS
        if "str" in str(typing.get_type_hints(Settings)[section].__annotations__[key])
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_secret_within_any_setting_is_hidden(section: str, key: str, value: str, tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    kind = str(typing.get_type_hints(Settings)[section].__annotations__[key])
    written = {"tuple": f"[{toml(value)}]", "dict[s": f'{{ "x" = {toml(value)} }}'}.get(
        kind[:6].rstrip("["), toml(value)
    )
    file.write_text(f"[{section}]\n{key} = {written}\n", "utf-8")
    try:
        settings = load(str(file), {})
    except SettingsError as error:
        assert PLANTED not in str(error)
        return
    assert PLANTED not in in_force(settings)


@given(st.text(max_size=20), st.text(max_size=20), st.sampled_from(WITHIN))
def test_a_secret_is_found_whatever_stands_around_it(before: str, after: str, within: str) -> None:
    assert PLANTED not in redacted(f"{before} {within}\n{after}")


@pytest.mark.parametrize(
    "text",
    [
        "Kafka at broker-1:9092 answers; the cluster has 3 broker(s).",
        "the broker closed the connection; check security.protocol, sasl.mechanism, user and password",
        "http://127.0.0.1:9309/client?service=a@b",
        "sasl.mechanism = SCRAM-SHA-512",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redacted(text) == text


LONG = (
    *("a." * 200_000, "password" * 50_000, "https://" * 50_000, "-----BEGIN PRIVATE KEY-----" * 5_000),
    *('password":' * 50_000, 'password=\\"' * 50_000, 'password=\\"' + "\\" * 200_000, "token" + "\\" * 200_000),
)


def test_long_text_is_searched_in_no_time() -> None:
    for text in LONG:
        redacted(text)


def test_logs_and_their_tracebacks_hold_no_secret(capsys: pytest.CaptureFixture[str]) -> None:
    formatter = _stderr._Redacted("%(levelname)s %(message)s")
    try:
        raise ValueError(f"cannot reach {WITHIN[0]} with {WITHIN[5]}")
    except ValueError as error:
        cause = (type(error), error, error.__traceback__)
    record = logging.LogRecord("kafka", logging.ERROR, "", 0, "%s failed: %s", (WITHIN[1], PEM), cause)
    text = formatter.format(record)
    assert PLANTED not in text and "Traceback" in text and "ValueError: cannot reach https://(hidden)@grafana" in text
    cli._defect(*cause)
    shown = capsys.readouterr().err
    assert PLANTED not in shown and "ValueError" in shown


def commands() -> Iterator[tuple[str, ...]]:
    yield ("check-config",)
    yield "check-config", "--changed"
    yield "doctor", "--json"
    yield "doctor", "--json", "with Spark"
    yield "explain", "producer-callback-deadlock"


@pytest.mark.parametrize(
    "command",
    [pytest.param(c, id=" ".join(c), marks=[pytest.mark.long] if "with Spark" in c else []) for c in commands()],
)
@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("KAFKA_HEALTH_KAFKA_OPTIONS", f'{{ "sasl.jaas.config" = "{PLANTED}" }}'),
        ("KAFKA_HEALTH_KAFKA_OPTIONS", f'{{ "sasl.jaas.config" = "{PLANTED}'),
        ("KAFKA_HEALTH_KAFKA_OPTIONS", f'{{ "ssl.keystore.key" = {json.dumps(PEM)} }}'),
        ("KAFKA_HEALTH_REVIEW_PROMETHEUS_URL", f"http://user:{PLANTED}@127.0.0.1:1"),
        ("KAFKA_HEALTH_LINKS_DASHBOARDS", f"http://{PLANTED}@127.0.0.1:1/?token={PLANTED}"),
    ],
)
def test_no_command_shows_a_secret(
    command: tuple[str, ...],
    variable: str,
    value: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("KAFKA_HEALTH_KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    monkeypatch.setitem(records.CLIENT, "bootstrap_timeout_ms", 300)
    monkeypatch.setenv(variable, value)
    monkeypatch.chdir(tmp_path)
    if "with Spark" not in command:
        found = importlib.util.find_spec
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "pyspark" else found(name))
    with pytest.raises(SystemExit):
        cli.main([word for word in command if word != "with Spark"])
    shown = "".join(capsys.readouterr())
    assert shown and PLANTED not in shown and "Traceback" not in shown


def test_headers_forbid_all_scripts_but_our_own_file() -> None:
    policy = dict(
        part.strip().split(" ", 1) for part in SECURITY_HEADERS["Content-Security-Policy"].split(";") if part.strip()
    )
    assert (policy["default-src"], policy["script-src"], policy["connect-src"]) == ("'none'", "'self'", "'self'")
