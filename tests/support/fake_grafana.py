"""Fake the documented calls of Grafana's HTTP API that upload dashboards."""

from __future__ import annotations

import copy
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

TOKEN = "glsa_the-token"
Answer = tuple[int, Any]
NOT_FOUND: Answer = (404, {"message": "not found", "status": "not-found"})


@dataclass
class Grafana:
    prefix: str = ""
    url: str = ""
    folders: dict[str, dict[str, Any]] = field(default_factory=dict)
    boards: dict[str, dict[str, Any]] = field(default_factory=dict)
    annotations: dict[int, dict[str, Any]] = field(default_factory=dict)
    refuse: dict[tuple[str, str], Answer] = field(default_factory=dict)
    writes: list[tuple[str, str, Any]] = field(default_factory=list)
    silent: threading.Event | None = None

    def answer(self, method: str, target: str, body: Any) -> Answer:
        parts = urlsplit(target)
        if not parts.path.startswith(f"{self.prefix}/api/"):
            return NOT_FOUND
        path = parts.path.removeprefix(f"{self.prefix}/api")
        for (refused, start), answer in self.refuse.items():
            if method == refused and path.startswith(start):
                return answer
        if method != "GET":
            self.writes.append((method, path, body))
        kind, _, rest = path.strip("/").partition("/")
        return {"folders": self._folders, "dashboards": self._dashboards, "annotations": self._annotations}[kind](
            method, rest, body, parse_qs(parts.query)
        )

    def _folders(self, method: str, rest: str, body: Any, query: dict[str, list[str]]) -> Answer:
        if method == "GET":
            return (200, self.folders[rest]) if rest in self.folders else NOT_FOUND
        assert method == "POST" and rest == ""
        self.folders[body["uid"]] = {"id": len(self.folders) + 1, "uid": body["uid"], "title": body["title"]}
        return 200, self.folders[body["uid"]]

    def _dashboards(self, method: str, rest: str, body: Any, query: dict[str, list[str]]) -> Answer:
        if method == "GET":
            uid = rest.removeprefix("uid/")
            return (200, self.boards[uid]) if uid in self.boards else NOT_FOUND
        assert (method, rest) == ("POST", "db") and body.keys() <= {"dashboard", "folderUid", "overwrite", "message"}
        board = copy.deepcopy(body["dashboard"])
        there = self.boards.get(board["uid"])
        version = there["dashboard"]["version"] + 1 if there else 1
        if there and not body["overwrite"]:
            return 412, {"status": "version-mismatch", "message": "The dashboard has been changed by someone else"}
        if body.get("folderUid") not in self.folders:
            return 400, {"message": "folder not found"}
        board |= {"id": len(self.boards) + 1, "version": version}
        for variable in board["templating"]["list"]:
            variable.setdefault("options", [])
        self.boards[board["uid"]] = {"dashboard": board, "meta": {"folderUid": body["folderUid"]}}
        return 200, {"uid": board["uid"], "version": version, "status": "success", "url": f"/d/{board['uid']}/x"}

    def _annotations(self, method: str, rest: str, body: Any, query: dict[str, list[str]]) -> Answer:
        if method == "GET":
            wanted = set(query.get("tags", []))
            return 200, [annotation for annotation in self.annotations.values() if wanted <= set(annotation["tags"])]
        id_ = int(rest) if rest else len(self.annotations) + 1
        assert method == ("PUT" if rest else "POST")
        self.annotations[id_] = {key: body[key] for key in ("time", "timeEnd", "text", "tags")} | {"id": id_}
        return 200, {"message": "Annotation added", "id": id_}


@contextmanager
def serving(fake: Grafana) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def _any(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            if fake.silent is not None:
                fake.silent.wait(10)
                return
            allowed = self.headers.get("Authorization") == f"Bearer {TOKEN}"
            status, answer = (
                fake.answer(self.command, self.path, body) if allowed else (401, {"message": "Invalid API key"})
            )
            text = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def do_GET(self) -> None:
            self._any()

        def do_POST(self) -> None:
            self._any()

        def do_PUT(self) -> None:
            self._any()

        def log_message(self, format: str, *args: object) -> None:
            return None

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        fake.url = f"http://127.0.0.1:{server.server_address[1]}{fake.prefix}"
        yield fake.url
        server.shutdown()
