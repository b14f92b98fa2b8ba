"""The bill of materials lists every jar, and jars with known vulnerabilities are found."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.reference.rooms import ROOT
from deploy.supply import audit, osv, sbom
from deploy.supply.jars import Jar, installed, judged, vulnerabilities

CVE = {"id": "CVE-1", "jar": "lib", "from": "1.2", "fixed": "1.10.1", "what": "bad"}


def jar(version: str, name: str = "lib", used_by: str = "spark") -> Jar:
    return Jar(used_by, "org.x", name, version, Path(f"{name}-{version}.jar"))


@pytest.mark.parametrize(
    ("version", "affected"),
    [("1.1.9", False), ("1.2", True), ("1.9.9", True), ("1.10.0.Final", True), ("1.10.1", False), ("2.0", False)],
)
def test_versions_are_compared_as_numbers(version: str, affected: bool) -> None:
    mend, stays = judged([jar(version), jar("1.3", "another")], [CVE])
    assert (len(mend), stays) == (int(affected), [])


def test_a_reason_lets_a_jar_stay_in_its_place_alone_and_must_be_needed() -> None:
    excused = {**CVE, "stays": {"legacy": "for the demo"}}
    mend, stays = judged([jar("1.3", used_by="legacy"), jar("1.3")], [excused])
    assert [line.split(" (")[1].split(")")[0] for line in (*mend, *stays)] == ["spark", "legacy"]
    assert stays[0].endswith("It stays: for the demo.")
    assert judged([jar("1.10.1", used_by="legacy")], [excused]) == (
        ["CVE-1: no jar of 'legacy' has this vulnerability; remove the entry."],
        [],
    )


def test_nothing_that_is_installed_is_to_be_mended() -> None:
    mend, stays = judged(installed(), vulnerabilities())
    assert mend == [] and stays
    monitor = {(one.name, one.version) for one in installed(("spark",)) if one.used_by == "spark"}
    assert ("kafka-clients", "3.9.2") in monitor


@pytest.mark.parametrize(
    ("answer", "mended", "message"),
    [
        ((0, "", "No known vulnerabilities found"), False, "none has a known vulnerability"),
        ((1, "", "requests.exceptions.ConnectionError: Max retries exceeded"), False, "NOT CHECKED"),
        ((1, "Name Version ID\nlib 1.0 PYSEC-1", "Found 1 known vulnerability"), True, "PYSEC-1"),
        ((2, "", "usage: pip-audit"), True, "usage"),
    ],
)
def test_an_answer_that_did_not_come_is_neither_good_nor_bad(
    answer: tuple[int, str, str], mended: bool, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert audit.has_vulnerability(*answer) is mended
    assert message in capsys.readouterr().out


class Osv(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        queries = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["queries"]
        lib = {"package": {"ecosystem": "Maven", "name": "org.x:lib"}, "version": "1.3"}
        results: list[dict[str, Any]] = [{} for _ in queries]
        for at, query in enumerate(queries):
            if query == lib:
                results[at] = {"next_page_token": "more"}
            elif query == {**lib, "page_token": "more"}:
                results[at] = {"vulns": [{"id": "GHSA-1", "modified": "2026-11-20T00:00:00Z"}]}
        self._say({"results": results})

    def do_GET(self) -> None:
        assert self.path == "/vulns/GHSA-1"
        self._say({"id": "GHSA-1", "aliases": ["CVE-7"], "summary": "it is bad"})

    def _say(self, document: object) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(document).encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def osv_url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Osv) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_an_advisory_missing_from_the_list_is_reported(osv_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert audit.has_news([jar("1.2"), jar("1.3"), jar("1.3", used_by="broker")], osv_url)
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(". ")[0] for line in lines[:2]] == [
        "NEW CVE-7, GHSA-1 in lib 1.3 (broker): it is bad",
        "NEW CVE-7, GHSA-1 in lib 1.3 (spark): it is bad",
    ]


@pytest.mark.parametrize(
    ("cve", "news"),
    [({**CVE, "id": "CVE-7"}, 0), ({**CVE, "also": ["CVE-7"]}, 0), (CVE, 1), ({**CVE, "id": "CVE-7", "jar": "b"}, 1)],
)
def test_what_the_list_names_is_no_news(osv_url: str, cve: dict[str, Any], news: int) -> None:
    assert len(osv.unlisted(osv.advisories([jar("1.3")], osv_url), [cve])) == news


def test_osv_out_of_reach_is_neither_good_nor_bad(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        assert not audit.has_news([jar("1.3")], f"http://127.0.0.1:{taken.getsockname()[1]}")
    assert "OSV NOT QUERIED" in capsys.readouterr().out


@pytest.mark.long
def test_most_jars_of_pyspark_contain_their_group() -> None:
    pyspark = [one for one in installed(()) if one.used_by == "pyspark"]
    groups = {one.name: one.group for one in pyspark}
    assert groups["netty-codec-http"] == "io.netty"
    assert sum(map(bool, groups.values())) > 0.7 * len(groups)


@pytest.mark.long
def test_the_bill_names_packages_and_jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "sbom.json"
    monkeypatch.setattr("sys.argv", ["sbom", str(out)])
    monkeypatch.setattr(sbom, "requirements", lambda: "kafka-python==3.0.12\nlz4==4.4.5\n")
    assert sbom.main() == 0
    bill = json.loads(out.read_text("utf-8"))
    purls = {component.get("purl") for component in bill["components"]}
    assert bill["bomFormat"] == "CycloneDX"
    assert {"pkg:pypi/kafka-python@3.0.12", "pkg:maven/org.apache.kafka/kafka-clients@3.9.2"} <= purls
    assert all(len(c["hashes"][0]["content"]) == 64 for c in bill["components"] if "maven" in c.get("purl", ""))


def test_forms_of_issues_are_as_github_takes_them() -> None:
    """See https://docs.github.com/en/communities/using-templates-to-encourage-useful-issues-and-pull-requests"""
    folder = ROOT / ".github/ISSUE_TEMPLATE"
    forms = {path.stem: yaml.safe_load(path.read_text("utf-8")) for path in folder.glob("*.yml")}
    assert forms.pop("config").keys() == {"blank_issues_enabled", "contact_links"}
    assert forms.keys() == {"bug", "false-verdict", "feature"}
    for name, form in forms.items():
        assert form.keys() == {"name", "description", "labels", "body"}, name
        assert len({part["id"] for part in form["body"]}) == len(form["body"]), name
        for part in form["body"]:
            assert part["type"] in ("input", "textarea", "dropdown") and part["attributes"]["label"], name
            assert bool(part["attributes"].get("options")) == (part["type"] == "dropdown"), name
