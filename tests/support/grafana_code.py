"""Install Grafana's own packages from npm, for tests that run its code."""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from clienthealth.platform import jars
from deploy.reference.rooms import ROOT

HERE = ROOT / "tests/support/grafana"
NODE, NPM = shutil.which("node"), shutil.which("npm")


@cache
def modules(drawing: bool = False) -> Path:
    if not (NODE and NPM):
        pytest.skip("needs node and npm")
    folder = jars.cache() / "npm-grafana"
    with alone(folder):
        _install(folder, NPM, drawing)
    return folder / "node_modules"


def _install(folder: Path, npm: str, drawing: bool) -> None:
    lock = (HERE / "package-lock.json").read_text("utf-8")
    fewer = () if drawing else ("--omit=dev",)
    done = folder / "installed-lock.json"
    if not done.is_file() or done.read_text("utf-8") not in (lock, f"{lock}{' '.join(fewer)}"):
        for name in ("package.json", "package-lock.json"):
            shutil.copyfile(HERE / name, folder / name)
        command = [npm, "ci", "--prefix", str(folder), *fewer, "--ignore-scripts", "--no-audit", "--no-fund"]
        installed = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
        assert installed.returncode == 0, f"npm could not install Grafana's packages: {installed.stderr.strip()[-300:]}"
        done.write_text(f"{lock}{' '.join(fewer)}", "utf-8")


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@cache
def schema(package: str) -> dict[str, Any]:
    folder = modules().parent
    made = folder / f"{package}.json"
    with alone(folder):
        if not made.is_file() or made.stat().st_mtime < (folder / "installed-lock.json").stat().st_mtime:
            command = [str(NODE), str(HERE / "schema.mjs"), str(modules()), package]
            done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
            assert done.returncode == 0, done.stderr[-2000:]
            made.write_text(done.stdout, "utf-8")
        rendered: dict[str, Any] = json.loads(made.read_text("utf-8"))
    return rendered
