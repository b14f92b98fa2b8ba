"""The catalogue of the demo's clients holds together."""

from __future__ import annotations

from clienthealth.modes import modes
from deploy.demo.client import PROGRAMS
from deploy.demo.clients import CLIENTS


def test_every_program_exists_and_is_used() -> None:
    assert {client.program for client in CLIENTS.values()} == {path.stem for path in PROGRAMS.glob("*.java")}


def test_every_mode_has_a_client_and_the_default_has_a_control() -> None:
    assert {client.mode for client in CLIENTS.values()} == {*modes(), None}
    assert any(client.mode is None for client in CLIENTS.values() if client.default)


def test_controls_show_no_mode_and_say_so() -> None:
    for client in CLIENTS.values():
        assert client.help.startswith("control: ") == (client.mode is None and not client.default), client.name
