"""List the client libraries' messages of level WARN or higher that no log pattern matches."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from clienthealth.modes import catalogue
from clienthealth.read.logs.wordings import Wording

LIST = Path(__file__).resolve().parents[1] / "golden" / "unworded.txt"
DECISIONS = ("noise", "rare", "bug", "said")
SOURCES = {
    "java": ("clients/src/main/java", ".java", r"\blog(?:ger)?\.(?:warn|error)\("),
    "connect": ("connect/runtime/src/main/java", "Task.java", r"\blog\.(?:warn|error)\("),
    "scala": ("core/src/main/scala/kafka", ".scala", r"(?<![\w.])(?:warn|error|fatal)\("),
    "librdkafka": (
        "src",
        ".c",
        r"\brd_(?:kafka|rkb)_(?:log\w*|broker_fail|broker_set_error)\(\s*\w+,\s*LOG_(?:CRIT|ERR|WARNING)",
    ),
    "kafka-python": ("kafka", ".py", r"\b(?:heartbeat_)?log\.(?:warning|error|exception|critical)\("),
    "aiokafka": ("aiokafka", ".py", r"\blog\.(?:warning|error|exception|critical)\("),
    "sarama": (".", ".go", r"(?<![A-Za-z])Logger\.Print(?:f|ln)?\("),
    "franz-go": ("pkg/kgo", ".go", r"\.Log\(LogLevel(?:Warn|Error)"),
    "kafka-go": (".", ".go", r"(?:\blog|\bl|logger)\.Printf\("),
    "kafkajs": ("src", ".js", r"\blogger\.(?:warn|error)\("),
}
ONLY = {"scala": re.compile(r"/(?:consumer|producer|client)/")}
OTHERS = re.compile(
    r"_test\.|/(?:tests?|examples?|mocks?|tools|admin|cli|benchmarks|vendor)/|rdunittest|rdkafka_mock|mockbroker|spec\.js"
)
_STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"|\'((?:[^\'\\\n]|\\.)*)\'|`((?:[^`\\]|\\.)*)`')
_FILLED = re.compile(r"\$\{[^{}]*\}|\{[^{}\s]{0,80}\}|%[-+ #0]*\d*(?:\.[\d*]+)?(?:ll|l|z|h)?[sdiuxcrvpfqwtT]|%$|\\[nt]")
#: Texts that replace `…` in a message. Some log patterns require a number or an id in place of `…`.
FILLS = (
    *("1", "orders-0", "k:9092", "bootstrap.servers", "[orders]", "'orders'", "{orders=UNKNOWN_TOPIC_OR_PARTITION}"),
    *("UNKNOWN_MEMBER_ID", "RequestTimedOutError", "WorkerSinkTask{id=a-0}"),
)
#: Maps a library to the texts that its logger may put before the message.
PREFIXES = {"kafkajs": ("", "[Connection] ", "[BrokerPool] ", "[Runner] ", "[Consumer] ", "[Producer] ")}


class Entry(NamedTuple):
    library: str
    decision: str
    reason: str
    literal: str


def entries() -> list[Entry]:
    rows = [line.split("\t") for line in LIST.read_text(encoding="utf-8").splitlines() if line and line[0] != "#"]
    parted = ((library, *decided.partition(": "), literal) for library, decided, literal in rows)
    return [Entry(library, decision, reason, literal) for library, decision, _, reason, literal in parted]


@cache
def _by_fill() -> frozenset[Wording]:
    """Return the log patterns that match a line with only a text of FILLS, or with only `error: ` and this text."""
    passed_on = (before + fill for fill in FILLS for before in ("", "error: "))
    return frozenset(wording for text in passed_on for wording, _ in catalogue().matches(text, None))


def is_worded(library: str, literal: str) -> bool:
    filled = [literal.replace("…", fill) for fill in FILLS]
    filled += [literal.replace("…", first, 1).replace("…", fill) for first in FILLS[:2] for fill in FILLS]
    lines = [prefix + line for line in filled for prefix in PREFIXES.get(library, ("",))]
    found = (wording for line in lines for wording, _ in catalogue().matches(line, None, with_loose=False))
    return any(wording not in _by_fill() for wording in found)


def literals(library: str, repository: str, revision: str) -> Iterator[str]:
    folder, suffix, call = SOURCES[library]
    archive = subprocess.run(
        ["git", f"--git-dir={repository}", "archive", revision, folder], check=True, capture_output=True
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tree:
        for member in tree:
            name = f"/{member.name}"
            if not name.endswith(suffix) or OTHERS.search(name) or not ONLY.get(library, re.compile("")).search(name):
                continue
            file = tree.extractfile(member)
            text = file.read().decode("utf-8", "replace") if file else ""
            for match in re.finditer(call, text):
                if literal := _literal(text[match.start() : match.start() + 1_500], library):
                    yield literal


def _literal(call: str, library: str) -> str:
    depth, at, parts = 0, call.index("("), []
    while at < len(call):
        string = _STRING.match(call, at)
        if string:
            text = next(filter(None, string.groups()), "").replace('\\"', '"')
            parts.append(f"{text[:-1]}…" if text.endswith("%") else text)
            at = string.end()
            continue
        depth += {"(": 1, ")": -1}.get(call[at], 0)
        if depth == 0:
            break
        if parts and call[at] in ",;" and library != "librdkafka":
            break
        if call[at] == "+" and parts and not re.match(r"\+\s*[\"'`]", call[at:]):
            parts.append("…")
        at += 1
    if library == "librdkafka" and parts and re.fullmatch(r"[A-Z0-9_]{2,24}", parts[0]):
        del parts[0]
    return re.sub(r"…{2,}", "…", re.sub(r"\s+", " ", _FILLED.sub("…", "".join(parts)))).strip()


def main(library: str, repository: str, revisions: list[str]) -> int:
    decided = {entry.literal for entry in entries() if entry.library == library}
    found = dict.fromkeys(literal for revision in revisions for literal in literals(library, repository, revision))
    missing = [literal for literal in found if literal not in decided and not is_worded(library, literal)]
    sys.stdout.writelines(f"{library}\t\t{literal}\n" for literal in missing)
    sys.stderr.write(f"{len(found)} literals, {len(found) - len(missing)} worded or decided\n")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
