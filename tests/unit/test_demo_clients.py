"""Each failure mode has a client in the demo, and each program of the demo is used."""

from __future__ import annotations

import re
from pathlib import Path

from clienthealth.modes import modes
from deploy.demo.client import LIBRARIES, PROGRAMS, PYTHON
from deploy.demo.clients import CLIENTS

MAKEFILE = Path(__file__).resolve().parents[2] / "Makefile"


def chosen(variable: str) -> list[str]:
    [names] = re.findall(rf"^{variable} := (.*)$", MAKEFILE.read_text(encoding="utf-8"), re.MULTILINE)
    return str(names).split(",")


def test_every_program_exists_and_is_used() -> None:
    written = {*PROGRAMS.glob("*.java"), *PYTHON.parent.glob("*.py")}
    compose = (MAKEFILE.parent / "deploy/compose.demo.yaml").read_text(encoding="utf-8")
    in_compose = {path.stem for path in written if f"/{path.name}" in compose}
    assert {client.program for client in CLIENTS.values()} | in_compose == {path.stem for path in written}


def test_every_mode_has_a_client_and_the_default_has_a_control() -> None:
    assert {client.mode for client in CLIENTS.values()} == {*modes(), None}, (
        "each mode needs a client in `_FAILING` of deploy/demo/clients.py"
    )
    assert any(client.mode is None for client in CLIENTS.values() if client.default)


def test_controls_show_no_mode_and_are_described_so() -> None:
    for client in CLIENTS.values():
        assert client.help.startswith("control: ") == (client.mode is None and not client.default), client.name


def test_a_pushed_client_id_contains_the_service_and_exceptions_have_a_reason() -> None:
    pushing = [client for client in CLIENTS.values() if client.pushes]
    services = {name: client.service for client in pushing for name in client.client_ids}
    assert all(client.client_ids and client.broker not in ("legacy", "none", "gateway") for client in pushing)
    assert all(services[name] == client.service for client in pushing for name in client.client_ids)
    assert {client.name for client in CLIENTS.values() if client.default and not client.pushes} == {
        "cross-topic-blocking",
        "shutdown-loop",
    }


def test_the_soak_has_healthy_clients_alone_and_a_cluster_that_is_rolled_under_every_library() -> None:
    soaked = [CLIENTS[name] for name in chosen("SOAK")]
    assert {client.mode for client in soaked} == {None}
    java = {"clients-0.11", "clients-2.3", "clients-3.9", "clients-4.1", "streams-4.4"}
    assert {client.classpath for client in soaked if client.broker == "cluster"} == {*java, *LIBRARIES}
    assert all(float(client.options["restart.every"]) for client in soaked if client.python)
    assert any(client.outage and client.outage.every for client in soaked)


def test_the_chronic_run_has_a_client_of_each_mode() -> None:
    shown = {CLIENTS[name].mode for name in chosen("CHRONIC")}
    assert shown == {*modes(), None}, "for each mode, add the name of a client to CHRONIC in the Makefile"
