"""The image and the compose file meet security requirements."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from clienthealth.platform import jars

ROOT = Path(__file__).resolve().parents[2]
COMPOSE = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text("utf-8"))


@pytest.mark.parametrize("name", COMPOSE["services"])
def test_compose_confines_every_service(name: str) -> None:
    service = COMPOSE["services"][name]
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))
    assert service["healthcheck"].get("test") or service["healthcheck"] == {"disable": True}
    assert service["mem_limit"] and service["cpus"] and service["read_only"] is True
    assert service["cap_drop"] == ["ALL"] and service["security_opt"] == ["no-new-privileges:true"]
    assert not service["image"].endswith(":latest") or "build" in service, "images of others are pinned"


def test_compose_has_no_default_password() -> None:
    assert COMPOSE["services"]["grafana"]["environment"]["GF_SECURITY_ADMIN_PASSWORD"].startswith(
        "${GRAFANA_ADMIN_PASSWORD:?"
    )


def test_the_image_is_built_from_what_the_context_lets_through() -> None:
    text = (ROOT / "deploy/Dockerfile").read_text("utf-8")
    bases = re.findall(r"^FROM (\S+)", text, re.MULTILINE)
    assert len(bases) == 2 and all(re.search(r":\d+\.\d+\.\d+-", base) for base in bases), "two stages, pinned"
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines() if line.startswith("!")}
    copied = {
        source for line in re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE) for source in line.split()
    }
    assert copied == allowed and all((ROOT / source).exists() for source in copied)
    assert re.search(r"^USER 10001$", text, re.MULTILINE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = set(re.findall(r"--extra (\S+)", text))
    assert wanted and wanted <= set(project["optional-dependencies"]), "uv refuses an extra that is not there"
    assert "uv sync --frozen --no-default-groups " in text, "--no-dev leaves out one of three groups"


def test_spark_submit_takes_the_jars_that_we_take() -> None:
    """Without our list, the Kafka connector would bring a vulnerable kafka-clients."""
    page = (ROOT / "deploy/cluster.md").read_text("utf-8")
    (packages,) = re.findall(r"--packages (\S+)", page)
    assert set(packages.split(",")) == set(jars.SETS["spark"].modules)
    named = set(re.findall(r"`(org\.apache\.(?:hadoop|spark):[\w.-]+:[\w.]+)`", page))
    assert named == {module for module in jars.SETS["s3"].modules if module.startswith("org.apache.")}


def test_hadolint_finds_nothing() -> None:
    linter = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([str(linter), str(ROOT / "deploy/Dockerfile")], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
