"""Convert recordings into what users attach to tickets: other layouts of logs, and archives."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import re
import tarfile
import zipfile
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from email.message import EmailMessage
from functools import cache
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from clienthealth.diagnose.attachments.opening import Input
from clienthealth.diagnose.examine import examine
from clienthealth.model.verdicts import Verdict
from clienthealth.settings import Settings
from tests.support.recorded import RECORDINGS

Statuses = dict[str, dict[str, str]]
_ENTRY = re.compile(r"(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d),(\d{3}) (\w+) +\[([^\]]*)\] (\S+) - ?(.*)", re.DOTALL)


def statuses(*paths: Path, stdin: bytes = b"") -> tuple[Statuses, dict[str, Input]]:
    diagnosis = examine(paths, Settings(), io.BytesIO(stdin))
    judged: Statuses = {client.client_id: of(verdicts) for client, verdicts in diagnosis.clients}
    return judged, {given.name: given for given in diagnosis.inputs}


def worst(by_client: Statuses, mode: str) -> str:
    order = ("", "ok", "unknown", "suspected", "confirmed")
    return max((by_mode.get(mode, "") for by_mode in by_client.values()), key=order.index, default="")


def of(verdicts: Iterable[Verdict]) -> dict[str, str]:
    return {v.mode: v.status for v in verdicts}


@cache
def log(recording: str, lines: int | None = None) -> str:
    packed = RECORDINGS / recording / "app.log.gz"
    return "".join(gzip.decompress(packed.read_bytes()).decode().splitlines(keepends=True)[:lines])


def unpacked(recording: str, into: Path) -> Path:
    folder = into / Path(recording).name
    folder.mkdir(parents=True)
    for file in sorted((RECORDINGS / recording).iterdir()):
        data = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        (folder / file.name.removesuffix(".gz")).write_bytes(data)
    return folder


def time_of(line: str, before: datetime) -> datetime:
    match = re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}", line)
    return datetime.strptime(match.group(), "%Y-%m-%d %H:%M:%S,%f").replace(tzinfo=UTC) if match else before


def each_line(wrap: Callable[[str, datetime], str]) -> Callable[[str], str]:
    def whole(text: str) -> str:
        at, lines = datetime(2026, 11, 20, tzinfo=UTC), []
        for line in text.splitlines():
            at = time_of(line, at)
            lines.append(wrap(line, at))
        return "\n".join(lines) + "\n"

    return whole


def entries(layout: Callable[[datetime, str, str, str, str], str], whole_stacks: bool = False) -> Callable[[str], str]:
    """Return a function that rewrites a log. With `whole_stacks`, a line and its stack trace stay in one message."""

    def whole(text: str) -> str:
        lines = []
        for line in re.split(r"\n(?=\d{4}-)", text.rstrip()) if whole_stacks else text.splitlines():
            match = _ENTRY.fullmatch(line)
            if match is None:
                lines.append(line)
                continue
            level, thread, logger, message = match.groups()[3:]
            lines.append(layout(time_of(line, datetime.now(UTC)), level, thread, logger, message))
        return "\n".join(lines) + "\n"

    return whole


def _iso(at: datetime) -> str:
    return at.isoformat(timespec="microseconds").replace("+00:00", "Z")


def _syslog(at: datetime) -> str:
    return f"{at:%b} {at.day:2} {at:%H:%M:%S}"


def _journal(message: object, at: datetime) -> str:
    """Return a line of `journalctl -o json`, in which a message that is not UTF-8 is a list of bytes."""
    return json.dumps(
        {
            "MESSAGE": message,
            "__REALTIME_TIMESTAMP": str(int(at.timestamp() * 1e6)),
            "_HOSTNAME": "web-7",
            "SYSLOG_IDENTIFIER": "orders",
            "_PID": "4711",
        }
    )


AROUND_LINES: dict[str, Callable[[str], str]] = {
    "compose": each_line(lambda line, at: f"web-1      | {line}"),
    "compose, coloured": each_line(lambda line, at: f"\x1b[36mweb-1  |\x1b[0m {line}"),
    "compose --timestamps": each_line(lambda line, at: f"web-1  | {_iso(at)} {line}"),
    "kubectl --prefix": each_line(lambda line, at: f"[pod/orders-7d9f8b6c5-x2x4z/app] {line}"),
    "kubectl --timestamps": each_line(lambda line, at: f"{_iso(at)} {line}"),
    "CRI": each_line(lambda line, at: f"{_iso(at)} stdout F {line}"),
    "syslog RFC 3164": each_line(lambda line, at: f"<14>{_syslog(at)} web-7 orders[4711]: {line}"),
    "syslog RFC 5424": each_line(lambda line, at: f"<14>1 {_iso(at)} web-7 orders 4711 - - {line}"),
    "journald short": each_line(lambda line, at: f"{_syslog(at)} web-7 orders[4711]: {line}"),
    "journald short-iso": each_line(lambda line, at: f"{at:%Y-%m-%dT%H:%M:%S}+0000 web-7 orders[4711]: {line}"),
    "journald JSON": each_line(lambda line, at: _journal(line, at)),
    "journald JSON of bytes": each_line(lambda line, at: _journal([*line.encode(), 256, -1, None, "x"], at)),
    "journald export": each_line(
        lambda line, at: (
            f"__CURSOR=s=1\n__REALTIME_TIMESTAMP={int(at.timestamp() * 1e6)}\n_HOSTNAME=web-7\n"
            f"SYSLOG_IDENTIFIER=orders\n_PID=4711\nMESSAGE={line}\n"
        )
    ),
    "docker json-file": each_line(
        lambda line, at: json.dumps({"log": line + "\n", "stream": "stdout", "time": _iso(at)})
    ),
    "cat -n": lambda text: "".join(f"{n:6}\t{line}\n" for n, line in enumerate(text.splitlines(), 1)),
    "grep -n": lambda text: "".join(f"{n}:{line}\n" for n, line in enumerate(text.splitlines(), 1)),
    "grep -Hn": lambda text: "".join(f"logs/app.log:{n}:{line}\n" for n, line in enumerate(text.splitlines(), 1)),
    "coloured": each_line(lambda line, at: f"\x1b[31m{line}\x1b[0m"),
    "CRLF": lambda text: text.replace("\n", "\r\n"),
}

LAYOUTS: dict[str, Callable[[str], str]] = {
    "bracketed": entries(lambda at, lv, th, lg, m: f"[{at:%Y-%m-%d %H:%M:%S}.{at:%f}] [{lv}] [{th}] [{lg}] {m}"),
    "tabs": entries(lambda at, lv, th, lg, m: f"{at:%Y-%m-%d %H:%M:%S}\t{lv}\t{th}\t{lg}\t{m}"),
    "time only": entries(lambda at, lv, th, lg, m: f"{at:%H:%M:%S}.{at:%f} [{th}] {lv} {lg} - {m}"),
    "yy/MM/dd": entries(lambda at, lv, th, lg, m: f"{at:%y/%m/%d %H:%M:%S} {lv} {lg}: {m}"),
    "dd MMM yyyy": entries(lambda at, lv, th, lg, m: f"{at:%d %b %Y %H:%M:%S},{at:%f} {lv} [{th}] {lg} - {m}"),
    "yyyy/MM/dd": entries(lambda at, lv, th, lg, m: f"{at:%Y/%m/%d %H:%M:%S} {lv} [{th}] {lg} - {m}"),
    "dd.MM.yyyy": entries(lambda at, lv, th, lg, m: f"{at:%d.%m.%Y %H:%M:%S} {lv} [{th}] {lg} - {m}"),
    "epoch s": entries(lambda at, lv, th, lg, m: f"{at.timestamp():.3f} {lv} [{th}] {lg} - {m}"),
    "epoch ms": entries(lambda at, lv, th, lg, m: f"[{at.timestamp() * 1000:.0f}] {lv} [{th}] {lg} - {m}"),
    "zone": entries(lambda at, lv, th, lg, m: f"{at:%Y-%m-%dT%H:%M:%S}.{at:%f}+0000 {lv} [{th}] {lg} - {m}"),
    "level first": entries(lambda at, lv, th, lg, m: f"{lv:5} [{at:%Y-%m-%d %H:%M:%S},{at:%f}] {lg}: {m}"),
    "brace first": entries(lambda at, lv, th, lg, m: f"{{{th}}} {lv} {at:%Y-%m-%d %H:%M:%S} {lg} - {m}"),
    "Spring Boot 3": entries(
        lambda at, lv, th, lg, m: f"{_iso(at)[:23]}Z {lv:>5} 1 --- [orders] [{th[:15]:>15}] {lg[-40:]:<40} : {m}"
    ),
    "Spring Boot 3, traced": entries(
        lambda at, lv, th, lg, m: f"{_iso(at)[:23]}+00:00 {lv:>5} 1 --- [{th[:15]:>15}] [66c-0f1] {lg[-40:]:<40} : {m}"
    ),
    "no time": entries(lambda at, lv, th, lg, m: f"{lv} [{th}] {lg} - {m}"),
    "JSON lines": entries(
        lambda at, lv, th, lg, m: json.dumps(
            {"@timestamp": _iso(at), "level": lv, "thread_name": th, "logger_name": lg, "message": m}
        )
    ),
    "Serilog": entries(
        lambda at, lv, th, lg, m: json.dumps({"@t": _iso(at), "@l": lv, "@m": m, "SourceContext": lg, "ThreadName": th})
    ),
    ".NET": entries(
        lambda at, lv, th, lg, m: json.dumps({"Timestamp": _iso(at), "LogLevel": lv, "Category": lg, "Message": m})
    ),
    "XML of log4j": entries(
        lambda at, lv, th, lg, m: (
            f'<log4j:event logger="{lg}" timestamp="{at.timestamp() * 1000:.0f}" level="{lv}" thread={quoteattr(th)}>\n'
            f"<log4j:message><![CDATA[{m}]]></log4j:message>\n</log4j:event>\n"
        ),
        whole_stacks=True,
    ),
    "XML of log4j 2": entries(
        lambda at, lv, th, lg, m: (
            f'<Event thread={quoteattr(th)} level="{lv}" loggerName="{lg}" endOfBatch="false"><Instant '
            f'epochSecond="{at.timestamp():.0f}" nanoOfSecond="0"/><Message>{escape(m)}</Message></Event>\n'
        ),
        whole_stacks=True,
    ),
    "XML of java.util.logging": lambda text: (
        '<?xml version="1.0" encoding="UTF-8" standalone="no"?>\n<!DOCTYPE log SYSTEM "logger.dtd">\n<log>\n'
        + entries(
            lambda at, lv, th, lg, m: (
                f"<record>\n  <date>{_iso(at)}</date>\n  <millis>{at.timestamp() * 1000:.0f}</millis>\n"
                f"  <logger>{lg}</logger>\n  <level>{lv}</level>\n  <thread>1</thread>\n"
                f"  <message>{escape(m)}</message>\n</record>"
            ),
            whole_stacks=True,
        )(text)
        + "</log>\n"
    ),
}


def _zip(folder: Path) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                archive.write(file, str(file.relative_to(folder.parent)))
    return out.getvalue()


def _tar(folder: Path) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        archive.add(folder, folder.name)
    return out.getvalue()


def _nested(folder: Path) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(f"case/{folder.name}.tar.gz", gzip.compress(_tar(folder)))
        archive.writestr("case/screenshot.png", b"\x89PNG\r\n\x1a\n" + bytes(50))
    return out.getvalue()


def _mail(folder: Path) -> bytes:
    mail = EmailMessage()
    mail["From"], mail["Subject"] = "ops@example.org", "the producer hangs"
    mail.set_content("Please look at these files.\n")
    mail.add_alternative("<p>Please look at these files.</p>", subtype="html")
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        mail.add_attachment(file.read_bytes(), maintype="application", subtype="octet-stream", filename=file.name)
    return mail.as_bytes()


ARCHIVES: dict[str, Callable[[Path], bytes]] = {
    "zip": _zip,
    "tar": _tar,
    "tar.gz": lambda folder: gzip.compress(_tar(folder)),
    "tgz": lambda folder: gzip.compress(_tar(folder)),
    "tar.bz2": lambda folder: bz2.compress(_tar(folder)),
    "tar.xz": lambda folder: lzma.compress(_tar(folder)),
    "nested.zip": _nested,
    "eml": _mail,
}
