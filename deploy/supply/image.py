"""`make image`: run the Dockerfile's steps without a container engine, and try the image.

python -m deploy.supply.image FOLDER      (as root; FOLDER is created, needs 3 GB, and is removed after the run)
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from clienthealth.model.errors import ServiceError
from clienthealth.platform.kafka import consumer
from clienthealth.platform.locations import checkout
from clienthealth.settings import Settings
from deploy.demo.broker import Broker
from deploy.demo.processes import Process
from deploy.demo.topics import create_ours

PACKAGES = "python3,python3-pip,python3-venv,ca-certificates"
OURS = (
    "/etc/hosts",
    "/etc/resolv.conf",
    "/etc/pip.conf",
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/ssl/certs/java/cacerts",
)
PASSED_ON = re.compile(r"(PIP|UV|SSL)_.*|.*_(proxy|PROXY)|KAFKA_HEALTH_MAVEN_URL")
RECORDING = "tests/recordings/deadlock-3.9"
VERDICT_SECONDS = 600.0
#: Script that runs a command without privileges in a read-only root file system.
_CONFINED = """
mount --bind {root} {root} && cd {root}
mount -t tmpfs tmpfs tmp && chmod 1777 tmp
mount -t tmpfs tmpfs var/lib/kafka-client-health && chown {user}:{user} var/lib/kafka-client-health
mount -t proc proc proc && mount --rbind /dev dev
mount -o remount,bind,ro {root}
exec chroot . /usr/bin/setpriv --reuid {user} --regid {user} --clear-groups --no-new-privs --bounding-set=-all \
  --inh-caps=-all /bin/sh -c 'cd {folder} && exec "$@"' sh {command}
"""


@dataclass
class Stage:
    root: Path
    folder: str = "/"
    user: str = "0"
    environment: dict[str, str] = field(default_factory=dict)
    command: list[str] = field(default_factory=list)


def main() -> int:
    """Build the image, and run its monitor until it confirms a failure. Return 0."""
    folder = Path(sys.argv[1]).resolve()
    folder.mkdir(parents=True)
    try:
        image = built(folder)
        seconds = judged(image, folder)
    finally:
        shutil.rmtree(folder)
    print(f"the image's monitor, as user {image.user} on a read-only root, has judged a client after {seconds:.0f} s")
    return 0


def built(folder: Path) -> Stage:
    base = folder / "base"
    # In a separate namespace, the mounts of mmdebstrap vanish even if mmdebstrap is killed.
    _run(["unshare", "--mount", "mmdebstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", str(base)])
    (base / "usr/local/bin/python").symlink_to("/usr/bin/python3")
    stages: dict[str, Stage] = {}
    stage = Stage(base)
    for word, rest in instructions((checkout() / "deploy/Dockerfile").read_text(encoding="utf-8")):
        print(f"{word} {rest}"[:120], flush=True)
        if word == "FROM":
            name = rest.partition(" AS ")[2] or "image"
            stage = stages[name] = Stage(folder / name)
            _run(["cp", "-a", str(base), str(stage.root)])
        elif word == "RUN":
            _step(stage, rest)
        elif word == "COPY":
            _copy(stage, stages, rest.split())
        elif word == "ENV":
            for setting in shlex.split(rest):
                key, _, value = setting.partition("=")
                stage.environment[key] = value.replace("$PATH", "/usr/local/bin:/usr/bin:/bin")
        elif word == "WORKDIR":
            stage.folder = rest
            (stage.root / rest[1:]).mkdir(parents=True, exist_ok=True)
        elif word == "USER":
            stage.user = rest
        elif word in ("ENTRYPOINT", "CMD"):
            stage.command += json.loads(rest)
        else:
            raise ServiceError(f"the Dockerfile has the instruction {word}, which `make image` does not support")
    return stage


def instructions(text: str) -> Iterator[tuple[str, str]]:
    """Yield (instruction, arguments) for each instruction of a Dockerfile. Continued lines are joined."""
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("#")).replace("\\\n", " ")
    for line in filter(None, lines.splitlines()):
        word, _, rest = line.partition(" ")
        yield word, rest.strip()


def judged(image: Stage, folder: Path) -> float:
    """Start the image's monitor on a recorded failure. Return the seconds until the monitor confirms a failure."""
    with Broker(folder / "broker") as broker:
        settings = Settings(kafka=broker.kafka)
        create_ours(settings)
        servers = {"KAFKA_HEALTH_KAFKA_BOOTSTRAP_SERVERS": broker.bootstrap_servers}
        # With port 0, the monitor serves no metrics. Another program may already use the usual port.
        environment = {**image.environment, **servers, "KAFKA_HEALTH_MONITOR_METRICS_PORT": "0", "HOME": "/tmp"}
        settled = ["env", "-i", *(f"{name}={value}" for name, value in environment.items()), *image.command]
        script = _CONFINED.format(
            root=image.root, user=image.user, folder=image.folder, command=" ".join(map(shlex.quote, settled))
        )
        began = time.monotonic()
        monitor = Process(
            "monitor", ["unshare", "--mount", "--pid", "--fork", "sh", "-ec", script], folder / "monitor.log"
        )
        try:
            replay = [
                sys.executable,
                "-m",
                "clienthealth.ops.cli",
                "replay",
                "--speed",
                "20",
                str(checkout() / RECORDING),
            ]
            _run(replay, {**os.environ, **servers})
            reader = consumer(settings, settings.topics.health, auto_offset_reset="earliest")
            monitor.wait_until(lambda: _confirmed(reader.poll(500)), VERDICT_SECONDS)
            reader.close()
        finally:
            monitor.kill()
        return time.monotonic() - began


def _confirmed(polled: dict[object, list[object]]) -> bool:
    return any(
        b'"confirmed"' in (getattr(record, "value", None) or b"") for batch in polled.values() for record in batch
    )


def _step(stage: Stage, command: str) -> None:
    for name in OURS:
        target = stage.root / name[1:]
        if Path(name).exists() and target.parent.is_dir():
            shutil.copy(name, target)
    passed_on = {name: value for name, value in os.environ.items() if PASSED_ON.fullmatch(name)}
    fixed = {"PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "PIP_BREAK_SYSTEM_PACKAGES": "1"}
    command = shlex.quote(f"cd {stage.folder} && {command}")
    inside = f"mount -t proc proc {stage.root}/proc && exec chroot {stage.root} sh -ec {command}"
    _run(["unshare", "--mount", "--pid", "--fork", "sh", "-ec", inside], {**passed_on, **fixed, **stage.environment})


def _copy(stage: Stage, stages: dict[str, Stage], arguments: list[str]) -> None:
    *sources, target = arguments
    to = stage.root / os.path.normpath(f"{stage.folder}/{target}")[1:] if target[0] != "/" else stage.root / target[1:]
    if sources[0].startswith("--from="):
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(stages[sources[0].partition("=")[2]].root / sources[1][1:], to)
        return
    for source in (checkout() / name for name in sources):
        if source.is_dir():
            shutil.copytree(source, to, symlinks=True, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        else:
            shutil.copy(source, to)


def _run(command: list[str], environment: dict[str, str] | None = None) -> None:
    done = subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise ServiceError(f"{shlex.join(command)[:300]} failed:\n{(done.stderr or done.stdout)[-3000:]}")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ServiceError as error:
        sys.exit(f"kafka-health: {error}")
