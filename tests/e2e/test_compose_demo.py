"""The compose demo without an engine: its files fit the schema, and the others read what is mounted."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

from clienthealth.ops.reference.rooms import ROOT

pytestmark = pytest.mark.long
DEPLOY = ROOT / "deploy"
FILES = [DEPLOY / "compose.yaml", DEPLOY / "compose.demo.yaml"]
BASE, DEMO = (yaml.safe_load(path.read_text("utf-8"))["services"] for path in FILES)
#: What each application must be found with.
EXPECTED = {
    "billing": "producer-callback-deadlock",
    "mail": "consumer-stalled",
    "checkout": "send-blocked-on-metadata",
}
CLIENTS = [name for name, service in DEMO.items() if "/demo/failing.py" in service.get("command", ())]
#: Services of the product, which run `kafka-health`; the first ends by itself.
OURS = ["topics", "monitor", "exporter", "groups"]


def test_the_files_fit_the_schema_of_compose() -> None:
    command = [str(Path(sys.executable).with_name("check-jsonschema")), "--builtin-schema", "vendor.compose-spec"]
    done = subprocess.run([*command, *map(str, FILES)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    wrong = subprocess.run([*command, "/dev/stdin"], input="services: {a: {comand: x}}", text=True, check=False)
    assert wrong.returncode == 1


def test_every_service_is_one_that_a_test_knows() -> None:
    others = {"broker", "prometheus", "alertmanager", "grafana", "jvm"}
    assert {*BASE, *DEMO} == {*OURS, *CLIENTS, *others}
    assert {*CLIENTS} == {*EXPECTED, "shop"}
    for name, service in DEMO.items():
        assert not service.get("ports"), name
        if name not in BASE:
            assert service["cap_drop"] == ["ALL"] and service["security_opt"] == ["no-new-privileges:true"], name
            assert service["mem_limit"] and service["cpus"] and service["healthcheck"], name
    for service in (*BASE.values(), *DEMO.values()):
        image = service.get("image", "kafka-client-health:latest")
        assert re.search(r":v?\d+\.\d+\.\d+$", image) or image.startswith("kafka-client-health"), image
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert not source.startswith(".") or (DEPLOY / source).exists(), volume


def test_the_image_of_the_applications_has_the_libraries_that_are_tested() -> None:
    text = DEMO["shop"]["build"]["dockerfile_inline"]
    pinned = dict(re.findall(r"([\w-]+)==(\S+)", text))
    assert pinned == {name: version(name) for name in ("confluent-kafka", "kafka-python")}


@pytest.mark.parametrize(
    ("service", "check"),
    [("prometheus", ("promtool", "check", "config")), ("alertmanager", ("amtool", "check-config"))],
)
def test_the_others_read_what_is_mounted(service: str, check: Sequence[str], tmp_path: Path) -> None:
    """A container's view of its volumes as links in a folder."""
    for volume in BASE[service]["volumes"]:
        source, target, *_ = volume.split(":")
        if source.startswith("."):
            (tmp_path / target[1:]).parent.mkdir(parents=True, exist_ok=True)
            if (DEPLOY / source).is_dir():
                (tmp_path / target[1:]).mkdir(exist_ok=True)
                for path in (DEPLOY / source).resolve().iterdir():
                    (tmp_path / target[1:] / path.name).symlink_to(path)
            else:
                (tmp_path / target[1:]).symlink_to((DEPLOY / source).resolve())
    (file,) = (word.partition("=")[2] for word in BASE[service]["command"] if word.startswith("--config.file="))
    done = subprocess.run([*check, str(tmp_path / file[1:])], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
