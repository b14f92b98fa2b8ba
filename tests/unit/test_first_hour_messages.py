"""Each problem of a user's first hour gives one sentence with advice."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from clienthealth.model.errors import HealthError
from clienthealth.ops.cli.monitor import _alone
from clienthealth.platform.jars import java, version
from clienthealth.platform.kafka import admin
from clienthealth.settings import KafkaSettings, Settings
from clienthealth.spark.failures import explained
from clienthealth.spark.self_monitoring import SelfMetrics
from deploy.reference.rooms import ROOT

FULL = "java.io.IOException: No space left on device\n\tat org.apache.hadoop.fs.RawLocalFileSystem"
TWO = "[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log. Multiple streaming jobs detected for 7.\nPlease"


def port_taken(_: Path, __: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        SelfMetrics().serve("127.0.0.1", taken.getsockname()[1], {})


def no_java(folder: Path, patch: pytest.MonkeyPatch) -> None:
    patch.setenv("PATH", str(folder))
    patch.delenv("JAVA_HOME", raising=False)
    java()


def old_java(folder: Path, _: pytest.MonkeyPatch) -> None:
    program = folder / "java"
    program.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    program.chmod(0o755)
    version(str(program))


def nobody_listens(_: Path, __: pytest.MonkeyPatch) -> None:
    admin(Settings(kafka=KafkaSettings("127.0.0.1:1")), bootstrap_timeout_ms=500)


def no_settings(_: Path, patch: pytest.MonkeyPatch) -> None:
    settings = Settings(kafka=KafkaSettings("127.0.0.1:1"))
    patch.setattr("clienthealth.platform.kafka.KafkaSettings", lambda: settings.kafka)
    admin(settings, bootstrap_timeout_ms=500)


def second_monitor(folder: Path, _: pytest.MonkeyPatch) -> None:
    with _alone(str(folder)), _alone(str(folder)):
        pass


def spark_failure(text: str) -> Callable[[Path, pytest.MonkeyPatch], None]:
    def failed(_: Path, __: pytest.MonkeyPatch) -> None:
        raise explained(text, Settings())

    return failed


HAPPENS = {
    "another process has the port": port_taken,
    "there is no Java": no_java,
    "Java is too old": old_java,
    "the address of the brokers is wrong, or the brokers are down": nobody_listens,
    "the settings file was not named, so the built-in address is used": no_settings,
    "the disk is full": spark_failure(FULL),
    "a second monitor was started": second_monitor,
    "a second monitor was started on another machine": spark_failure(TWO),
}
(SECTION,) = re.findall(
    r"^## In the first hour\n(.*?)^## ", (ROOT / "deploy/README.md").read_text("utf-8"), re.DOTALL | re.MULTILINE
)
PAGE: dict[str, str] = dict(re.findall(r"^\| ([^`|]+) \| `(.+)` \|$", SECTION, re.MULTILINE))


def test_the_page_lists_all_messages() -> None:
    assert PAGE.keys() == HAPPENS.keys()
    assert SECTION.count("\n| ") == len(PAGE) + 1


@pytest.mark.parametrize("what", HAPPENS)
def test_it_is_one_sentence_with_advice_as_on_the_page(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(HealthError) as raised:
        HAPPENS[what](tmp_path, monkeypatch)
    sentence = ".+".join(re.escape(part) for part in PAGE[what].split("…"))
    assert re.search(sentence, str(raised.value)), raised.value
    assert "\n" not in str(raised.value)
