"""`kafka-health dashboards push` sends the dashboards to a local fake of Grafana's documented API."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clienthealth.model.errors import InputError
from clienthealth.ops.cli import main
from dashboards.annotations import incidents
from dashboards.build import boards
from tests.support.fake_grafana import TOKEN, Grafana, serving


@pytest.fixture
def grafana(monkeypatch: pytest.MonkeyPatch) -> Iterator[Grafana]:
    monkeypatch.setenv("GRAFANA_TOKEN", TOKEN)
    fake = Grafana()
    with serving(fake):
        yield fake


@pytest.fixture
def token_file(tmp_path: Path) -> str:
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n", "utf-8")
    return str(path)


def push(fake: Grafana, *more: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["dashboards", "push", "--url", fake.url, *more])
    return int(str(ended.value.code))


def test_all_dashboards_arrive_in_their_folder(grafana: Grafana, capsys: pytest.CaptureFixture[str]) -> None:
    assert push(grafana, "--folder", "Kafka", "--folder-uid", "kafka", "--message", "release 12") == 0
    assert grafana.folders["kafka"]["title"] == "Kafka"
    assert {uid: pushed["meta"]["folderUid"] for uid, pushed in grafana.boards.items()} == {
        board["uid"]: "kafka" for board in boards().values()
    }
    bodies = [body for _, path, body in grafana.writes if path == "/dashboards/db"]
    assert all(
        body["overwrite"] and body["message"] == "release 12" and body["dashboard"]["id"] is None for body in bodies
    )
    assert capsys.readouterr().out.count("created ") == len(boards())


def test_second_push_changes_nothing(grafana: Grafana, capsys: pytest.CaptureFixture[str]) -> None:
    push(grafana)
    before = len(grafana.writes)
    capsys.readouterr()
    assert push(grafana) == 0
    assert len(grafana.writes) == before
    assert capsys.readouterr().out.count("unchanged ") == len(boards())


def test_only_what_differs_is_replaced(grafana: Grafana, capsys: pytest.CaptureFixture[str]) -> None:
    push(grafana)
    moved, edited = grafana.boards["kafka-client-health-review"], grafana.boards["kafka-client-health-monitor"]
    moved["meta"]["folderUid"] = ""
    edited["dashboard"]["panels"].pop()
    capsys.readouterr()
    assert push(grafana) == 0
    out = capsys.readouterr().out
    assert out.count("updated ") == 2 and out.count("unchanged ") == len(boards()) - 2
    again = grafana.boards["kafka-client-health-review"]
    assert (again["meta"]["folderUid"], again["dashboard"]["version"]) == ("kafka-client-health", 2)


def test_existing_folder_is_kept(grafana: Grafana) -> None:
    grafana.folders["kafka-client-health"] = {"id": 1, "uid": "kafka-client-health", "title": "Ours"}
    assert push(grafana) == 0
    assert grafana.folders["kafka-client-health"]["title"] == "Ours"


def test_token_from_a_file(grafana: Grafana, token_file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GRAFANA_TOKEN")
    assert push(grafana, "--token-file", token_file) == 0


def test_below_a_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAFANA_TOKEN", TOKEN)
    fake = Grafana(prefix="/monitoring/grafana")
    with serving(fake):
        assert push(fake) == 0
    assert len(fake.boards) == len(boards())


def test_address_and_target_of_the_settings_arrive(grafana: Grafana, tmp_path: Path) -> None:
    config = tmp_path / "settings.toml"
    config.write_text(
        '[links]\nstatus_page = "https://kafka.example.org/"\n[review]\nslo_target = 0.99\n', encoding="utf-8"
    )
    assert push(grafana, "--config", str(config)) == 0
    variables = grafana.boards["kafka-client-health-review"]["dashboard"]["templating"]["list"]
    constants = {variable["name"]: variable["query"] for variable in variables if variable["type"] == "constant"}
    assert constants == {"status_page": "https://kafka.example.org", "slo_target": "0.99"}


@pytest.mark.parametrize(
    ("request_", "answer", "sentence"),
    [
        (("POST", "/dashboards"), (403, {"message": "Permission denied"}), "(403): the token lacks the right"),
        (
            ("POST", "/dashboards"),
            (412, {"message": "A dashboard with the same name already exists", "status": "name-exists"}),
            "(412): another user changed the dashboard, or Grafana loads it from a file: A dashboard with the same",
        ),
        (
            ("POST", "/dashboards"),
            (400, {"message": "Cannot save provisioned dashboard"}),
            "(400): Cannot save provisioned",
        ),
        (("POST", "/folders"), (403, {"message": "Permission denied"}), "refuses the folder 'Kafka clients' (403)"),
        (("GET", "/dashboards"), (500, {"message": "database is locked"}), "failed on a look-up (500): see its log"),
        (("POST", "/dashboards"), (413, "too large"), "(413): too large"),
    ],
)
def test_refusals_are_reported_in_a_sentence(
    grafana: Grafana,
    capsys: pytest.CaptureFixture[str],
    request_: tuple[str, str],
    answer: tuple[int, Any],
    sentence: str,
) -> None:
    grafana.refuse[request_] = answer
    assert push(grafana) == 2
    assert sentence in refusal(capsys)


def test_wrong_token(grafana: Grafana, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAFANA_TOKEN", "glsa_expired-secret")
    assert push(grafana) == 2
    assert "does not accept the token (401)" in refusal(capsys)


def test_grafana_that_does_not_answer(grafana: Grafana, capsys: pytest.CaptureFixture[str]) -> None:
    grafana.silent = threading.Event()
    assert push(grafana, "--timeout", "0.2") == 2
    grafana.silent.set()
    assert "did not answer in time" in refusal(capsys)


def test_no_server(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAFANA_TOKEN", TOKEN)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    assert push(Grafana(url=f"http://127.0.0.1:{port}")) == 2
    assert f"http://127.0.0.1:{port} cannot be reached" in refusal(capsys)


@pytest.mark.parametrize(
    ("url", "sentence"),
    [("grafana:3000", "no valid address of Grafana"), ("http://admin:secret@grafana", "must contain no password")],
)
def test_addresses(url: str, sentence: str, capsys: pytest.CaptureFixture[str], grafana: Grafana) -> None:
    assert push(Grafana(url=url)) == 2
    assert sentence in refusal(capsys)


def test_no_token(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("GRAFANA_TOKEN", raising=False)
    assert push(Grafana(url="http://127.0.0.1:9")) == 2
    assert "no token for Grafana" in refusal(capsys)
    assert push(Grafana(url="http://127.0.0.1:9"), "--token-file", str(tmp_path / "missing")) == 2
    assert "cannot be read" in refusal(capsys)


def refusal(capsys: pytest.CaptureFixture[str]) -> str:
    text = capsys.readouterr().err
    assert text.startswith("kafka-health: ") and "Traceback" not in text
    assert TOKEN not in text and "secret" not in text
    return text


def review(tmp_path: Path, stop: str | None) -> Path:
    incident = {"service": "orders", "instance": "web-7:1", "client_id": "p", "mode": "producer-callback-deadlock"}
    incident |= {"start": "2026-11-20T21:04:00Z", "stop": stop}  # type: ignore[dict-item]
    path = tmp_path / "review.json"
    path.write_text(json.dumps({"schema": 1, "themes": [{"listed": [incident]}]}), "utf-8")
    return path


def test_incidents_become_annotations_once(grafana: Grafana, tmp_path: Path) -> None:
    assert push(grafana, "--incidents", str(review(tmp_path, None))) == 0
    assert list(grafana.annotations.values()) == [
        {
            "id": 1,
            "time": 1795208640000,
            "timeEnd": 1795208640000,
            "text": "producer-callback-deadlock: p of orders on web-7:1 (still open)",
            "tags": [
                "kafka-client-health",
                "producer-callback-deadlock",
                "orders|web-7:1|p|producer-callback-deadlock|1795208640000",
            ],
        }
    ]
    writes = len(grafana.writes)
    assert push(grafana, "--incidents", str(review(tmp_path, None))) == 0
    assert len(grafana.writes) == writes


def test_end_of_an_incident_is_added_later(grafana: Grafana, tmp_path: Path) -> None:
    push(grafana, "--incidents", str(review(tmp_path, None)))
    assert push(grafana, "--incidents", str(review(tmp_path, "2026-11-20T21:09:00Z"))) == 0
    (annotation,) = grafana.annotations.values()
    assert (annotation["timeEnd"], annotation["text"]) == (
        1795208940000,
        "producer-callback-deadlock: p of orders on web-7:1",
    )


@pytest.mark.parametrize("text", ["", "[]", '{"themes": [{"listed": [{"service": "x"}]}]}'])
def test_what_is_no_review(tmp_path: Path, text: str) -> None:
    path = tmp_path / "review.json"
    path.write_text(text, "utf-8")
    with pytest.raises(InputError):
        incidents(path)
