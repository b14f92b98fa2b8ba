"""Start a Spark standalone cluster, and submit the monitor to it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import pyspark

from clienthealth.platform import jars
from clienthealth.platform.jars import java
from clienthealth.settings import Settings
from clienthealth.spark.session import submit_options
from deploy.demo.processes import Process, free_port
from tests.chaos.parts import session

ROOT = Path(__file__).resolve().parents[2]
SPARK_HOME = Path(pyspark.__file__).parent
START_SECONDS = 300.0
EXECUTOR, PYTHON = "CoarseGrainedExecutorBackend", "pyspark.daemon"
FRUGAL = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class SparkCluster:
    def __init__(self, folder: Path, memory_mb: int, more: Mapping[str, str] | None = None) -> None:
        self.folder, self._memory_mb, self._more = folder, memory_mb, more or {}
        self._port, self._web = free_port(), free_port()
        self._master: Process | None = None
        self.workers: list[Process] = []
        self._started = 0

    @property
    def url(self) -> str:
        return f"spark://127.0.0.1:{self._port}"

    @property
    def environment(self) -> Mapping[str, str]:
        return {
            **self._more,
            "SPARK_HOME": str(SPARK_HOME),
            "JAVA_HOME": str(Path(java()).resolve().parent.parent),
            "SPARK_LOCAL_IP": "127.0.0.1",
            # Without SPARK_SCALA_VERSION, a worker searches for a Spark build to find the version.
            "SPARK_SCALA_VERSION": "2.13",
        }

    def __enter__(self) -> Self:
        self._master = self._start("master", "master.Master", self._port, self._web)
        self._master.wait_until(lambda: self.state() is not None, START_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        for process in (*self.workers, self._master):
            if process is not None:
                process.kill()

    def add(self, count: int) -> Sequence[Process]:
        assert self._master is not None
        before = self.alive()
        new = []
        for _ in range(count):
            self._started += 1
            name = f"worker-{self._started}"
            options = ("--cores", "1", "--memory", f"{self._memory_mb}m", "--work-dir", str(self.folder / name))
            new.append(self._start(name, "worker.Worker", free_port(), free_port(), *options, self.url))
        self.workers += new
        self._master.wait_until(lambda: self.alive() >= before + count, START_SECONDS)
        return new

    def lose(self, worker: Process) -> None:
        self.workers.remove(worker)
        worker.kill()

    def state(self) -> dict[str, Any] | None:
        url = f"http://127.0.0.1:{self._web}/json/"
        # While the master starts, the answer is no JSON.
        with suppress(OSError, json.JSONDecodeError), urllib.request.urlopen(url, timeout=5) as answer:
            document: dict[str, Any] = json.load(answer)
            return document
        return None

    def alive(self) -> int:
        return int((self.state() or {}).get("aliveworkers", 0))

    def executors(self) -> Mapping[int, str]:
        return {pid: command for worker in self.workers for pid, command in session(worker.pid) if EXECUTOR in command}

    def at_work(self) -> int:
        return sum(any(PYTHON in command for _, command in session(worker.pid)) for worker in self.workers)

    def errors(self) -> Sequence[str]:
        return [path.read_text(encoding="utf-8") for path in self.folder.glob("*/app-*/*/stderr")]

    def _start(self, name: str, program: str, port: int, web: int, *options: str) -> Process:
        # bin/spark-class would start another JVM, only to compute this command.
        command = [java(), *FRUGAL, "-cp", f"{SPARK_HOME}/jars/*", f"org.apache.spark.deploy.{program}"]
        command += ["--host", "127.0.0.1", "--port", str(port), "--webui-port", str(web), *options]
        return Process(name, command, self.folder / f"{name}.log", environment=self.environment)


def bare_python(folder: Path) -> Path:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = (folder / "lib").glob("python*/site-packages")
    # dependencies.pth adds a folder of packages. Python ignores the .pth files in an added folder, so Python does not
    # find our editable installation.
    (packages / "dependencies.pth").write_text(f"{SPARK_HOME.parent}\n", encoding="utf-8")
    return folder / "bin" / "python"


def submission(
    cluster: SparkCluster, settings: Settings, config: Path, package: Path, **options: str
) -> tuple[list[str], Mapping[str, str]]:
    folder = config.parent
    properties = folder / "monitor.conf"
    conf = {**submit_options(settings, cluster=False), **{n.replace("__", "."): v for n, v in options.items()}}
    properties.write_text("".join(f"{name} {value}\n" for name, value in conf.items()), encoding="utf-8")
    python = str(bare_python(folder / "python"))
    command = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", cluster.url, "--deploy-mode", "client"]
    command += ["--properties-file", str(properties), "--jars", ",".join(map(str, jars.classpath("spark")))]
    # Copy the package, because Spark imports only from archives named .zip. Copy monitor.py, because Python would
    # import the packages beside the original monitor.py.
    archive, program = (
        Path(shutil.copy(file, folder / name))
        for file, name in ((package, "kafka_client_health.zip"), (ROOT / "jobs" / "monitor.py", "monitor.py"))
    )
    command += ["--py-files", str(archive), str(program), "--config", str(config)]
    return command, {**cluster.environment, "PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python}
