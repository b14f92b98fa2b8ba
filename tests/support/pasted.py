"""Imitate how mail, trackers, chats, terminals and log searches change a text."""

from __future__ import annotations

import csv
import html
import io
import json
import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime

from tests.support.attachments import time_of

PROSE = "Hi all,\n\nwe run a service and since the brokers were restarted it hangs for ever. Any idea?\n\n"


def _lines(of: Callable[[str], str]) -> Callable[[str], str]:
    return lambda text: "\n".join(map(of, text.split("\n")))


def _numbered(between: str) -> Callable[[str], str]:
    return lambda text: "\n".join(f"{n:4d}{between}{line}" for n, line in enumerate(text.split("\n"), 1))


def wrapped(text: str, width: int) -> str:
    parts = (textwrap.wrap(line, width, break_on_hyphens=False) or [""] for line in text.split("\n"))
    return "\n".join(line for part in parts for line in part)


def cut(text: str, width: int) -> str:
    return "\n".join(
        "\n".join(line[at : at + width] for at in range(0, max(len(line), 1), width)) for line in text.split("\n")
    )


TEXTS: dict[str, Callable[[str], str]] = {
    "fences": lambda text: f"{PROSE}```java\nproducer.send(record).get();\n```\nand then:\n```\n{text}\n```\nThanks\n",
    "quoted": _lines(lambda line: f"> {line}"),
    "quoted twice": _lines(lambda line: f">> {line}"),
    "tracker": lambda text: f"h3. What\n{PROSE}{{noformat}}\n{text}\n{{noformat}}\nthanks",
    "code macro": lambda text: f"{{code:java}}\n{text}\n{{code}}\n",
    "HTML": html.escape,
    "HTML page": lambda text: f"<html><body><p>Hi</p><pre><code>{html.escape(text)}</code></pre></body></html>",
    "HTML breaks": lambda text: "<br>".join(html.escape(line) for line in text.split("\n")),
    "indented": lambda text: textwrap.indent(text, "        "),
    "numbered": _numbered("  "),
    "numbered with bars": _numbered(" | "),
    "wrapped": lambda text: wrapped(text, 90),
    "cut": lambda text: cut(text, 80),
    "hard spaces": lambda text: text.replace("\t", "\u00a0\u00a0\u00a0\u00a0"),
    "UTF-8 mark": lambda text: f"\ufeff{text}",
    "unknown prefix": _lines(lambda line: f"orders-svc/1 >> {line}"),
}
BLOCKS: dict[str, Callable[[str], str]] = {
    "no blanks before": _lines(str.strip),
    "no at": _lines(lambda line: re.sub(r"^\s*at ", "", line)),
    "addresses hidden": lambda text: re.sub(r"java\.base@[\d.]+", "[email protected]", text),
    "bullets": _lines(lambda line: f"• {line.strip()}"),
    "diff": _lines(lambda line: f"+{line}"),
    "ticks": _lines(lambda line: f"`{line}`"),
    "one line": lambda text: " ".join(line.strip() for line in text.split("\n")),
    "JSON string": json.dumps,
    "JSON field": lambda text: json.dumps({"title": "hangs", "text": text}),
    "escaped": lambda text: text.replace("\n", "\\n").replace("\t", "\\t"),
    "table": lambda text: f"| thread | stack |\n|---|---|\n| x | {'<br>'.join(text.split(chr(10)))} |",
    "old Mac": lambda text: text.replace("\n", "\r"),
    "logged line by line": _lines(lambda line: f"2026-11-20 18:40:45,123 INFO  [dumper] ops - {line}"),
    "lines left out": lambda text: re.sub(r"\n\tat [^\n]*CountDownLatch[^\n]*", "\n\t... some more ...", text),
}
Entry = tuple[datetime, str]


def entries(text: str) -> list[Entry]:
    listed: list[Entry] = []
    for line in text.splitlines():
        if re.match(r"\d{4}-\d\d-\d\d ", line):
            listed.append((time_of(line, datetime.now(UTC)), line))
        else:
            listed[-1] = listed[-1][0], f"{listed[-1][1]}\n{line}"
    return listed


def _iso(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _nanos(at: datetime) -> str:
    return f"{at.timestamp():.6f}000".replace(".", "")


def _kibana(at: datetime) -> str:
    return f"{at:%b} {at.day}, {at:%Y} @ {at:%H:%M:%S}.{at.microsecond // 1000:03d}"


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(head)
    writer.writerows(rows)
    return out.getvalue()


def _by_line(of: Callable[[datetime, str], str]) -> Callable[[list[Entry]], str]:
    return lambda match: "".join(of(at, line) + "\n" for at, text in match for line in text.split("\n"))


def _each(of: Callable[[datetime, str], object]) -> Callable[[list[Entry]], str]:
    return lambda match: "".join(json.dumps(of(at, text)) + "\n" for at, text in match)


SEARCHES: dict[str, Callable[[list[Entry]], str]] = {
    "Kibana CSV": lambda es: _table(
        ["@timestamp", "host.name", "message"], [(_kibana(a), "w", t) for a, t in es[::-1]]
    ),
    "Elasticsearch": lambda es: json.dumps(
        {"hits": {"hits": [{"_index": "l", "_source": {"@timestamp": _iso(a), "message": t}} for a, t in es]}}
    ),
    "Elasticsearch fields": lambda es: json.dumps(
        {"hits": {"hits": [{"fields": {"@timestamp": [_iso(a)], "message": [t]}} for a, t in es[::-1]]}}, indent=1
    ),
    "Loki": lambda es: json.dumps(
        {"data": {"result": [{"stream": {"app": "o"}, "values": [[_nanos(a), t] for a, t in es[::-1]]}]}}
    ),
    "logcli": _by_line(lambda at, line: f'{_iso(at)} {{app="orders", pod="o-1"}} {line}'),
    "logcli jsonl": _each(lambda at, text: {"labels": {"app": "o"}, "line": text, "timestamp": _iso(at)}),
    "Grafana JSON": lambda es: json.dumps([{"line": t, "timestamp": _nanos(a), "fields": {}} for a, t in es[::-1]]),
    "Grafana text": lambda es: (
        'Common labels: {"app":"orders"}\nLine limit: "1000"\n\n\n' + "".join(f"{_iso(a)}\t{t}\n" for a, t in es[::-1])
    ),
    "stern": _by_line(lambda at, line: f"\x1b[32morders-7d9f8b6c5-x2x4z\x1b[0m \x1b[36mapp\x1b[0m {line}"),
    "CloudWatch events": lambda es: json.dumps(
        {"events": [{"logStreamName": "s", "timestamp": int(a.timestamp() * 1000), "message": t} for a, t in es]}
    ),
    "CloudWatch Insights CSV": lambda es: _table(["@timestamp", "@message"], [(_iso(a), t) for a, t in es[::-1]]),
    "CloudWatch Insights": lambda es: json.dumps(
        {
            "results": [
                [{"field": "@timestamp", "value": f"{a:%Y-%m-%d %H:%M:%S.000}"}, {"field": "@message", "value": t}]
                for a, t in es
            ]
        }
    ),
    "aws logs tail": _by_line(lambda at, line: f"{at.isoformat()} app/orders/4711 {line}"),
    "Google": lambda es: json.dumps(
        [{"textPayload": t, "timestamp": _iso(a), "severity": "INFO"} for a, t in es[::-1]]
    ),
    "Google payload": lambda es: json.dumps([{"jsonPayload": {"message": t}, "timestamp": _iso(a)} for a, t in es]),
    "Datadog CSV": lambda es: _table(["Date", "Host", "Service", "Message"], [(_iso(a), "h", "s", t) for a, t in es]),
    "Datadog": lambda es: json.dumps(
        {"data": [{"type": "log", "attributes": {"timestamp": _iso(a), "message": t}} for a, t in es]}
    ),
    "Splunk JSON": _each(lambda at, text: {"preview": False, "result": {"_time": at.isoformat(), "_raw": text}}),
    "Splunk CSV": lambda es: _table(
        ["_serial", "_time", "_raw"], [(n, a.isoformat(), t) for n, (a, t) in enumerate(es)]
    ),
    "newest first": lambda es: "".join(f"{text}\n" for _, text in es[::-1]),
    "Heroku": _by_line(lambda at, line: f"{at.isoformat()} app[web.1]: {line}"),
    "Cloud Foundry": _by_line(lambda at, line: f"   {_iso(at)} [APP/PROC/WEB/0] OUT {line}"),
    "docker service": _by_line(lambda at, line: f"web.1.abc123@node-1    | {line}"),
    "CRI in parts": _by_line(
        lambda at, line: (
            f"{_iso(at)[:-1]}000Z stdout P {line[:60]}\n{_iso(at)[:-1]}000Z stdout F {line[60:]}"
            if len(line) > 60
            else f"{_iso(at)[:-1]}000Z stdout F {line}"
        )
    ),
    "rsyslog": lambda es: "".join(
        f"{a:%b} {a.day:2d} {a:%H:%M:%S} web-7 orders: " + t.replace("\n", "#012").replace("\t", "#011") + "\n"
        for a, t in es
    ),
    "grep -n": lambda es: "".join(f"{n}:{line}\n" for n, (_, text) in enumerate(es) for line in text.split("\n")),
}
