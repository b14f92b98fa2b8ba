"""From answers about a cluster to its file of settings."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from clienthealth.cli import main
from clienthealth.configuration import load
from clienthealth.errors import SettingsError
from clienthealth.initialise import Answers, write
from clienthealth.platform.kafka import python_options


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


def test_a_login_without_its_parts_is_told() -> None:
    with pytest.raises(SettingsError, match="--username and --password-file"):
        Answers("b:9093", "SASL_SSL", username="health").text()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "--bootstrap-servers is missing, and nobody is there to be asked"),
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
        (["--bootstrap-servers", "127.0.0.1:1"], "nobody listens there"),
    ],
)
def test_what_is_wrong_is_told_and_nothing_is_written(
    arguments: list[str],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("clienthealth.initialise.TIMEOUT_MS", 500)
    with pytest.raises(SystemExit) as ended:
        main(["init", "--out", str(tmp_path / "health.toml"), *arguments])
    assert ended.value.code == 2
    assert sentence in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_there_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "health.toml"
    file.write_text('[kafka]\nbootstrap_servers = "a:1"\n', "utf-8")
    with pytest.raises(SystemExit) as ended:
        main(["init", "--out", str(file), "--bootstrap-servers", "b:1", "--username", "u"])
    assert ended.value.code == 2
    assert capsys.readouterr().err.endswith(
        f"{file} is there and says how to connect: edit it, or leave out --bootstrap-servers, --username\n"
    )
    assert "a:1" in file.read_text("utf-8")
