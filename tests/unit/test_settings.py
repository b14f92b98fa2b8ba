"""Settings come from defaults, a file and the environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from clienthealth.configuration import in_force, load
from clienthealth.model.errors import SettingsError


def written(folder: Path, text: str) -> str:
    file = folder / "settings.toml"
    file.write_text(text)
    return str(file)


def test_the_environment_wins_over_the_file_and_the_file_over_the_default(tmp_path: Path) -> None:
    path = written(tmp_path, '[kafka]\nbootstrap_servers = "a:1"\n[monitor]\ntrigger_seconds = 7\n')
    settings = load(path, {"KAFKA_HEALTH_KAFKA_BOOTSTRAP_SERVERS": "b:2"})
    assert settings.kafka.bootstrap_servers == "b:2"
    assert settings.monitor.trigger_seconds == 7
    assert settings.monitor.window_seconds == 60


def test_lists_come_comma_separated_from_the_environment() -> None:
    assert load(None, {"KAFKA_HEALTH_TOPICS_METRICS": "a, b"}).topics.metrics == ("a", "b")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[monitr]\n", "unknown section [monitr]"),
        ("[monitor]\ntriger_seconds = 1\n", "has no key 'triger_seconds'"),
        ('[monitor]\ntrigger_seconds = "x"\n', "trigger_seconds must be a whole number, 0 to 86400"),
        ("[monitor]\ntrigger_seconds = true\n", "trigger_seconds must be a whole number, 0 to 86400"),
        ("[topics]\nmetrics = 'one'\n", "must be a list of strings"),
        ("[modes.no-such-mode]\nx = 1\n", "unknown mode"),
        ("kafka = 1\n", "must be a section"),
        ("[kafka\n", "not valid TOML"),
    ],
)
def test_mistakes_in_a_file_are_reported(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(SettingsError, match=complaint.replace("[", r"\[").replace("]", r"\]")):
        load(written(tmp_path, text), {})


@pytest.mark.parametrize(
    ("variable", "complaint"),
    [
        ("KAFKA_HEALTH_NOPE_X", "no section 'nope'"),
        ("KAFKA_HEALTH_MONITOR_NOPE", "has no key 'nope'"),
        ("KAFKA_HEALTH_MONITOR_TRIGGER_SECONDS", r"\[monitor\] trigger_seconds must be a whole number"),
    ],
)
def test_a_wrong_variable_is_an_error(variable: str, complaint: str) -> None:
    with pytest.raises(SettingsError, match=complaint):
        load(None, {variable: "many"})


def test_a_missing_file_is_an_error() -> None:
    with pytest.raises(SettingsError, match="cannot be read"):
        load("/no/such/settings.toml", {})


def test_what_is_in_force_reads_back_and_hides_secrets(tmp_path: Path) -> None:
    path = written(tmp_path, '[kafka.options]\n"sasl.jaas.config" = "p@ss"\n"security.protocol" = "SSL"\n')
    text = in_force(load(path, {}))
    assert "p@ss" not in text
    again = load(written(tmp_path, text), {})
    assert again.kafka.options == {"sasl.jaas.config": "(hidden)", "security.protocol": "SSL"}
    assert again.monitor == load(None, {}).monitor
    assert in_force(load(path, {}), changed_only=True).splitlines()[0] == "[kafka]"


def test_what_the_settings_name_lies_in_the_current_folder_and_urls_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Relative folders become absolute, because Delta rejects relative ones."""
    (tmp_path / "else").mkdir()
    path = written(tmp_path / "else", '[monitor]\nhistory = "h"\n[review.histories]\neu = "eu"\nus = "s3a://us/h"\n')
    monkeypatch.chdir(tmp_path)
    settings = load(path, {"KAFKA_HEALTH_REVIEW_OUT": "dbfs:/reports"})
    assert settings.monitor.history == f"{tmp_path}/h"
    assert settings.monitor.checkpoint == f"{tmp_path}/state/checkpoints"
    assert settings.review.histories == {"eu": f"{tmp_path}/eu", "us": "s3a://us/h"}
    assert settings.review.out == "dbfs:/reports"
    assert settings.prometheus.web_config_file == ""
    guarded = load(None, {"KAFKA_HEALTH_PROMETHEUS_WEB_CONFIG_FILE": "web.yml"})
    assert guarded.prometheus.web_config_file == f"{tmp_path}/web.yml"
    assert in_force(load(None, {}), changed_only=True) == ""
