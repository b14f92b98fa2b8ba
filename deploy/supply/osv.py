"""Query OSV, the advisory database osv.dev, about jars. API: https://google.github.io/osv.dev/api/"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deploy.supply.jars import Jar

URL = "https://api.osv.dev/v1"
_AT_ONCE = 1000
_TIMEOUT_SECONDS = 30


@dataclass(frozen=True)
class Advisory:
    """An advisory on a package. `names`: the advisory's id in OSV, and its ids in other databases."""

    names: frozenset[str]
    summary: str


def advisories(present: Iterable[Jar], url: str = URL) -> list[tuple[Jar, Advisory]]:
    """Return (jar, advisory) for each OSV advisory on a jar in `present`. Jars of unknown Maven group are left out.

    Raises OSError if the service does not answer.
    """
    asked = [jar for jar in present if jar.group]
    found = [
        (jar, name) for start in range(0, len(asked), _AT_ONCE) for jar, name in _ids(asked[start:][:_AT_ONCE], url)
    ]
    known = {name: _advisory(_answer(f"{url}/vulns/{name}")) for name in sorted({name for _, name in found})}
    return [(jar, known[name]) for jar, name in found]


def unlisted(found: Iterable[tuple[Jar, Advisory]], cves: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return a line for each (jar, advisory) in `found` that `cves` (known_cves.toml) does not list."""
    listed: dict[str, set[str]] = {}
    for cve in cves:
        listed.setdefault(cve["jar"], set()).update((cve["id"], *cve.get("also", ())))
    lines = {
        f"{', '.join(sorted(advisory.names))} in {jar.name} {jar.version} ({jar.used_by}): {advisory.summary}"
        for jar, advisory in found
        if not advisory.names & listed.get(jar.name, set())
    }
    return sorted(lines)


def _ids(jars: Sequence[Jar], url: str) -> Iterator[tuple[Jar, str]]:
    todo = [
        (jar, {"package": {"ecosystem": "Maven", "name": f"{jar.group}:{jar.name}"}, "version": jar.version})
        for jar in jars
    ]
    while todo:
        answers = _answer(f"{url}/querybatch", {"queries": [query for _, query in todo]})["results"]
        pages = []
        for (jar, query), answer in zip(todo, answers, strict=True):
            for advisory in answer.get("vulns", ()):
                yield jar, advisory["id"]
            if token := answer.get("next_page_token"):
                pages.append((jar, {**query, "page_token": token}))
        todo = pages


def _advisory(document: Mapping[str, Any]) -> Advisory:
    summary = document.get("summary") or str(document.get("details", "")).partition("\n")[0]
    return Advisory(frozenset((document["id"], *document.get("aliases", ()))), summary)


def _answer(url: str, question: Mapping[str, Any] | None = None) -> Any:
    body = None if question is None else json.dumps(question).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as response:
        return json.load(response)
