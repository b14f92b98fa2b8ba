"""Attach a Jolokia agent to a JVM of this machine for as long as `watch` reads the JVM.

The agent listens only on loopback, needs a password, and allows only reads and thread dumps.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, NamedTuple

from clienthealth.model.errors import DependencyError, InputError, ServiceError
from clienthealth.platform import jars
from clienthealth.platform.html_page import rendered
from clienthealth.platform.jars import java
from clienthealth.read.mbeans import RUNTIME
from clienthealth_exporters.jvm.jolokia import Jolokia, JolokiaError

USER = "kafka-health"
#: Time limit (s) for the agent's launcher. The launcher itself gives up after about 10 s.
LAUNCH_SECONDS = 30.0
ANSWER_SECONDS = 30.0
_PROC = Path("/proc")
_SMALL = ("-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_ATTACHED_BEFORE = "is already attached to PID"
_FOLDER = "kafka-health-watch-"
_NO_PASSWORD = "HTTP 401"
_PACKAGE = "clienthealth.diagnose.watch"


class Agent(NamedTuple):
    """The address of a Jolokia agent. `user` and `password_file` are '' if the agent needs no password."""

    url: str
    user: str = ""
    password_file: str = ""


def runtime_of(pid: int) -> Literal["java", "python"]:
    """Return the runtime of a process. Without /proc/self/ns, which only Linux has, every process counts as Java.

    Raises InputError if the process does not exist, runs in another container, belongs to another user, or runs neither
    Java nor Python.
    """
    process, own = _PROC / str(pid), _PROC / "self"
    try:
        os.kill(pid, 0)
        if not own.joinpath("ns/mnt").exists():
            return "java"
        maps = process.joinpath("maps").read_text(errors="replace")
        python = "libjvm" not in maps and "python" in process.joinpath("exe").readlink().name + maps
        # Only the user who runs a JVM can attach to it; root cannot.
        if process.stat().st_uid != os.geteuid() and not (python and os.geteuid() == 0):
            raise PermissionError
        if process.joinpath("ns/mnt").readlink() != own.joinpath("ns/mnt").readlink():
            raise InputError(
                f"process {pid} runs in a container: run 'kafka-health watch' in that container (kubectl exec, docker "
                "exec), or give the URL of a Jolokia agent"
            )
        if "libjvm" not in maps and not python:
            name = process.joinpath("comm").read_text(errors="replace").strip()
            raise InputError(f"process {pid} ({name}) is neither a Java nor a Python process")
    except (FileNotFoundError, ProcessLookupError, OverflowError):
        raise InputError(f"there is no process {pid} on this machine") from None
    except PermissionError:
        why = f"run 'kafka-health watch {pid}' as that user (sudo -u NAME)"
        raise InputError(f"process {pid} belongs to another user: {why}") from None
    return "python" if python else "java"


def lives(pid: int) -> bool:
    """True if the process exists and is not a zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    try:
        # An ended process keeps the state Z or X until its parent collects it.
        return (_PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return not _PROC.joinpath("self/stat").exists()


def agent_jar(given: Path | None) -> Path:
    """Return `given`, the path of a Jolokia agent's jar. If `given` is None, return a cached jar, or download one.

    Raises InputError if `given` does not exist, and DependencyError if the jar cannot be downloaded.
    """
    if given is not None and not given.is_file():
        raise InputError(f"--agent {given}: there is no such file")
    try:
        return jars.classpath("jolokia")[0] if given is None else given.resolve()
    except DependencyError as error:
        module = jars.SETS["jolokia"].modules[0]
        raise DependencyError(f"{error}; or download {module} and pass the file with --agent") from error


@contextmanager
def attached(pid: int, jar: Path, with_password: bool = False) -> Iterator[Agent]:
    """Yield the address of the JVM's Jolokia agent. If the JVM has no agent, attach one, and remove it on exit.

    `with_password`: True if the settings have a password for agents. Raises InputError if no agent can be attached, or
    if the JVM's agent asks for an unknown password. Raises ServiceError if Jolokia's launcher does not end, and
    DependencyError if Java lacks the module jdk.attach.
    """
    with tempfile.TemporaryDirectory(prefix=_FOLDER) as folder:
        policy, config, password = (Path(folder, name) for name in ("policy.xml", "agent.properties", "password"))
        secret = secrets.token_urlsafe(24)
        password.write_text(secret, encoding="utf-8")
        policy.write_text(rendered(_PACKAGE, "policy.xml.j2"), encoding="utf-8")
        values = {"user": USER, "password": secret, "policy": policy.as_uri()}
        config.write_text(rendered(_PACKAGE, "agent.properties.j2", **values), encoding="utf-8")
        port = free_port()
        options = ("--host", "127.0.0.1", "--port", str(port), "--discoveryEnabled", "false", "--config", str(config))
        with password.open(encoding="utf-8") as lock:
            # The lock is released when this `watch` ends, so the lock shows whether this `watch` still runs.
            fcntl.flock(lock, fcntl.LOCK_EX)
            output = _launch(jar, *options, "start", str(pid))
            if _ATTACHED_BEFORE in output:
                before = Agent(output.split()[-1].rstrip("/") + "/")
                left = _of_a_watch(before, pid, jar, with_password)
                if left is None or not _is_abandoned(left):
                    yield before if left is None else Agent(before.url, USER, str(left))
                    return
                _launch(jar, "stop", str(pid))
                shutil.rmtree(left.parent, ignore_errors=True)
                output = _launch(jar, *options, "start", str(pid))
            agent = Agent(f"http://127.0.0.1:{port}/jolokia/", USER, str(password))
            try:
                _await(agent, pid, output)
                yield agent
            finally:
                # The watched process may have ended by now.
                with suppress(ServiceError):
                    _launch(jar, "stop", str(pid))


def _of_a_watch(agent: Agent, pid: int, jar: Path, with_password: bool) -> Path | None:
    """Return the password file that an earlier `watch` left for this agent; None if no such file is needed."""
    if _NO_PASSWORD not in _refusal(agent.url):
        return None
    for password in Path(tempfile.gettempdir()).glob(f"{_FOLDER}*/password"):
        with suppress(OSError):
            own = password.stat().st_uid == os.geteuid()
            if own and not _refusal(agent.url, USER, password.read_text(encoding="utf-8")):
                return password
    if with_password:
        return None
    raise InputError(
        f"the Jolokia agent in process {pid} asks for a password ({agent.url}): set user and password_file in section "
        f"[jvm] of the settings; or, if the agent is not needed, remove it: 'java -jar {jar} stop {pid}'"
    )


def _refusal(url: str, user: str = "", password: str = "") -> str:
    try:
        Jolokia(url, ANSWER_SECONDS, user, password).read({RUNTIME: ("Name",)})
    except JolokiaError as error:
        return str(error)
    return ""


def _is_abandoned(password: Path) -> bool:
    with password.open(encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def output_of(command: Sequence[str], seconds: float) -> subprocess.CompletedProcess[str]:
    """Run a command in its own session, so that Ctrl-C reaches only `watch`. Raises TimeoutExpired after `seconds`."""
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=seconds,
        check=False,
        start_new_session=True,
    )


def _launch(jar: Path, *arguments: str) -> str:
    """Run the launcher and return its output. Ignore the exit code, which depends on how fast the JVM answers."""
    command = [java(), *_SMALL, "-jar", str(jar), *arguments]
    try:
        done = output_of(command, LAUNCH_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise ServiceError(f"process {arguments[-1]} did not load the agent within {LAUNCH_SECONDS:.0f} s") from error
    if "jdk.attach" in done.stderr or "VirtualMachine class" in done.stderr or "tools.jar" in done.stderr:
        raise DependencyError(
            f"{command[0]} is a Java without the module jdk.attach: set JAVA_HOME to a JDK, or start the application "
            f"with -javaagent:{jar.name}=port=8778,host=127.0.0.1 and watch the agent's URL"
        )
    return done.stdout + done.stderr


def _await(agent: Agent, pid: int, output: str) -> None:
    password = Path(agent.password_file).read_text(encoding="utf-8")
    deadline = time.monotonic() + ANSWER_SECONDS
    while refusal := _refusal(agent.url, agent.user, password):
        runtime_of(pid)
        if time.monotonic() >= deadline or "Cannot attach" in output:
            why = " ".join(output.split()) if "Cannot attach" in output or "command: " in output else refusal
            raise InputError(
                f"process {pid} could not load the agent: {why}; if the JVM runs with -XX:+DisableAttachMechanism, "
                "start the JVM with -javaagent, and watch the agent's URL instead of the process id"
            )
        time.sleep(0.1)


def free_port() -> int:
    """Return a free TCP port on loopback."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
