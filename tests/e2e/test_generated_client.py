"""Check that an API client, generated from the exporter's openapi.json, lists the unhealthy clients."""

from __future__ import annotations

import os
import shutil
import subprocess
import urllib.request
from pathlib import Path

import pytest

from deploy.reference.rooms import ROOT
from tests.unit.test_mcp import KEY, exporter

UV = shutil.which("uv") or shutil.which("uv", path=str(ROOT / ".cache" / "uv" / "bin"))
pytestmark = [pytest.mark.long, pytest.mark.skipif(UV is None, reason="needs uv")]
PROGRAM = """
import sys
from generated import Client
from generated.api.default import clients, clients_by_key
from generated.models import ClientDetails, ClientList
with Client(base_url=sys.argv[1]) as client:
    found = clients.sync(client=client)
    assert isinstance(found, ClientList), found
    unhealthy = [one for one in found.clients if any(v.status in ("suspected", "confirmed") for v in one.failures)]
    one = clients_by_key.sync(unhealthy[0].key, client=client)
    assert isinstance(one, ClientDetails), one
    print(len(found.clients), [(one.key, [failure.mode for failure in one.failures]) for one in unhealthy])
    print([verdict.mode for verdict in one.verdicts if verdict.evidence])
"""


def run(folder: Path, *command: str) -> str:
    programs = {**os.environ, "PATH": f"{folder}/venv/bin:{os.environ['PATH']}"}
    done = subprocess.run(command, cwd=folder, env=programs, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_it_is_generated_and_finds_the_client_that_fails(tmp_path: Path) -> None:
    assert UV is not None
    python = str(tmp_path / "venv/bin/python")
    run(tmp_path, UV, "venv", "--quiet", "venv")
    run(tmp_path, UV, "pip", "install", "--quiet", "--python", python, "openapi-python-client", "ruff")
    with exporter() as started:
        with urllib.request.urlopen(f"{started.url}/api/v1/openapi.json") as answer:
            (tmp_path / "openapi.json").write_bytes(answer.read())
        generate = ("generate", "--path", "openapi.json", "--meta", "none", "--output-path", "generated")
        run(tmp_path, python, "-m", "openapi_python_client", *generate, "--fail-on-warning")
        printed = run(tmp_path, python, "-c", PROGRAM, started.url)
    assert printed.splitlines() == [f"6 [('{KEY}', ['producer-callback-deadlock'])]", "['producer-callback-deadlock']"]
