"""The answers to the questions of `kafka-health init` become a settings file."""

from __future__ import annotations

import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

from clienthealth.configuration import load
from clienthealth.model.errors import SettingsError
from clienthealth.ops.cli import main
from clienthealth.ops.initialise import Answers, write
from clienthealth.platform.logins import python_options
from clienthealth.platform.topics import inputs, outputs, replication_risk, usual_replicas
from clienthealth.settings import TopicSettings


def test_a_plain_cluster_needs_its_address_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert tomllib.loads(Answers("b:9092").text()) == {
        "kafka": {"bootstrap_servers": "b:9092"},
        "topics": {"metrics": ["client-metrics"], "logs": ["client-logs"]},
        "monitor": {"checkpoint": f"{tmp_path}/state/checkpoints", "history": f"{tmp_path}/state/history"},
        "review": {"out": f"{tmp_path}/reports"},
    }


def test_state_may_lie_elsewhere() -> None:
    assert tomllib.loads(Answers("b:9092", state="/var/lib/health").text())["monitor"] == {
        "checkpoint": "/var/lib/health/state/checkpoints",
        "history": "/var/lib/health/state/history",
    }
    assert tomllib.loads(Answers("b:9092", state="s3a://health").text())["review"] == {"out": "s3a://health/reports"}


def test_a_password_is_read_as_it_was_typed(tmp_path: Path) -> None:
    typed = r'a"b\c;d$ü'
    answers = Answers("b:9093", "SASL_SSL", "SCRAM-SHA-256", 'us"er', typed, ca_file=str(tmp_path / "ca.pem"))
    write(tmp_path / "health.toml", answers.text())
    options = load(str(tmp_path / "health.toml"), {}).kafka.options
    assert options["sasl.jaas.config"].startswith("org.apache.kafka.common.security.scram.ScramLoginModule required ")
    ours = python_options(options)
    assert (ours["sasl_plain_username"], ours["sasl_plain_password"]) == ('us"er', typed)
    assert (ours["sasl_mechanism"], ours["ssl_cafile"]) == ("SCRAM-SHA-256", str(tmp_path / "ca.pem"))


def test_a_secret_is_neither_shown_nor_readable_for_others(tmp_path: Path) -> None:
    answers = Answers("b:9093", "SASL_PLAINTEXT", "PLAIN", "health", "s3cret")
    assert "s3cret" not in answers.text(hidden=True) + repr(answers)
    write(tmp_path / "health.toml", answers.text())
    assert (tmp_path / "health.toml").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["health.toml"]


_BEARER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
_KRB5 = "com.sun.security.auth.module.Krb5LoginModule required"


@pytest.mark.parametrize(
    ("mechanism", "given", "jaas"),
    [
        (
            "OAUTHBEARER",
            {"username": "c", "password": "s", "scope": "kafka", "token_url": "https://id/token"},
            f'{_BEARER} clientId="c" clientSecret="s" scope="kafka";',
        ),
        ("OAUTHBEARER", {"token_url": "file:///run/token"}, f"{_BEARER};"),
        ("AWS_MSK_IAM", {}, None),
        (
            "GSSAPI",
            {"username": "h@R", "keytab": "/etc/h.keytab"},
            f'{_KRB5} useKeyTab=true storeKey=true keyTab="/etc/h.keytab" principal="h@R";',
        ),
        ("GSSAPI", {"username": "h@R"}, f'{_KRB5} useTicketCache=true principal="h@R";'),
    ],
)
def test_each_login_has_its_answers(mechanism: str, given: dict[str, str], jaas: str | None) -> None:
    options = Answers("b:9093", "SASL_SSL", mechanism, **given).options()  # type: ignore[arg-type]
    assert (options["sasl.mechanism"], options.get("sasl.jaas.config")) == (mechanism, jaas)
    assert options.get("sasl.oauthbearer.token.endpoint.url") == given.get("token_url")


def test_stores_are_known_by_their_ending(tmp_path: Path) -> None:
    for name in ("ca.JKS", "me.p12"):
        (tmp_path / name).touch()
    answers = Answers(
        "b:9093", "SSL", ca_file=str(tmp_path / "ca.JKS"), client_file=str(tmp_path / "me.p12"), store_password="s3cret"
    )
    assert {name.removeprefix("ssl."): value for name, value in answers.options().items()} == {
        "security.protocol": "SSL",
        "truststore.type": "JKS",
        "truststore.location": str(tmp_path / "ca.JKS"),
        "truststore.password": "s3cret",
        "keystore.type": "PKCS12",
        "keystore.location": str(tmp_path / "me.p12"),
        "keystore.password": "s3cret",
    }
    assert "s3cret" not in answers.text(hidden=True) + repr(answers)


def test_an_incomplete_login_is_reported() -> None:
    with pytest.raises(SettingsError, match="--username and --password-file"):
        Answers("b:9093", "SASL_SSL", username="health").text()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "--bootstrap-servers is missing, and there is no terminal to ask for it"),
        (
            ["--bootstrap-servers", "b:1", "--security-protocol", "SASL_SSL", "--username", "u"],
            "--username and --password-file",
        ),
        (
            [
                *("--bootstrap-servers", "b:1", "--security-protocol", "SASL_SSL", "--username", "u"),
                *("--password-file", "/no/such"),
            ],
            "--password-file /no/such: cannot be read",
        ),
        (["--bootstrap-servers", "127.0.0.1:1"], "no program listens on this port"),
    ],
)
def test_mistakes_are_reported_and_nothing_is_written(
    arguments: list[str],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("clienthealth.ops.initialise.TIMEOUT_MS", 500)
    with pytest.raises(SystemExit) as ended:
        main(["init", "--out", str(tmp_path / "health.toml"), *arguments])
    assert ended.value.code == 2
    assert sentence in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_ctrl_d_at_a_question_ends_it_like_ctrl_c(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True, readline=lambda: ""))
    with pytest.raises(SystemExit) as ended:
        main(["init", "--out", str(tmp_path / "health.toml")])
    assert ended.value.code == 130
    assert capsys.readouterr().err == ""


def test_a_file_that_is_there_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("clienthealth.ops.initialise.TIMEOUT_MS", 500)
    file, password = tmp_path / "health.toml", tmp_path / "password"
    password.write_text("s3cret\n")
    ca = str(tmp_path / "ca.pem")
    login = ["--security-protocol", "SASL_SSL", "--username", "health", "--password-file", str(password)]
    given = [*login, "--ca-file", ca, "--metrics-topic", "m", "--logs-topic", "l", "--state", str(tmp_path)]
    topics = TopicSettings(("m",), ("l",))
    write(
        file,
        Answers("127.0.0.1:1", "SASL_SSL", "SCRAM-SHA-512", "health", "s3cret", ca, "", topics, str(tmp_path)).text(),
    )
    before = file.read_text("utf-8")

    def error_of(*options: str) -> str:
        with pytest.raises(SystemExit) as ended:
            main(["init", "--out", str(file), *options])
        assert ended.value.code == 2
        return capsys.readouterr().err

    assert "Kafka at 127.0.0.1:1: " in error_of("--bootstrap-servers", "127.0.0.1:1", *given)
    assert error_of("--bootstrap-servers", "b:1", *given).endswith(
        f"{file} exists with other values: edit the file, or drop the options --bootstrap-servers\n"
    )
    password.write_text("another\n")
    assert error_of(*login, "--state", "/elsewhere").endswith("drop the options --password-file, --state\n")
    assert file.read_text("utf-8") == before


@pytest.mark.parametrize(("brokers", "copies", "in_sync"), [(1, 1, None), (2, 2, "1"), (3, 3, "2"), (9, 3, "2")])
def test_new_topics_have_three_copies_or_as_many_as_there_are_brokers(
    brokers: int, copies: int, in_sync: str | None
) -> None:
    assert usual_replicas(brokers) == copies
    for topic in (*inputs(TopicSettings(), replicas=copies), *outputs(TopicSettings(), copies)):
        assert f"--replication-factor {copies} " in topic.command("b:1")
        assert topic.config.get("min.insync.replicas") == in_sync


@pytest.mark.parametrize(
    ("copies", "brokers", "in_sync", "risk"),
    [
        (1, 1, 1, ""),
        (1, 2, 1, "replication factor 1 although there are several brokers: "),
        (2, 2, 1, ""),
        (2, 3, 2, "min.insync.replicas 2, but only 2 replica(s): "),
        (3, 3, 2, ""),
        (1, 1, 2, "min.insync.replicas 2, but only 1 replica(s): "),
    ],
)
def test_a_topic_that_one_broker_takes_down_with_it_is_named(
    copies: int, brokers: int, in_sync: int, risk: str
) -> None:
    described = {"partitions": [{"replica_nodes": [1, 2, 3]}, {"replica_nodes": [*range(copies)]}]}
    warning = replication_risk(described, brokers, in_sync)
    assert warning.startswith(risk) and bool(warning) == bool(risk)
