"""Whose a file or a line is: the names of processes, as files and prefixes of lines have them."""

from __future__ import annotations

import re
from collections.abc import Sequence

#: Words that say what a file holds or which part of a log it is, not whose.
_GENERAL = re.compile(
    r"app|application|audit|client|console|csv|debug|dump|dumps|err|error|gc|info|json|"
    r"jsonl|kafka|log|logs|main|messages|metrics|ndjson|out|output|root|server|stack|stacks|"
    r"stderr|stdout|sys|syslog|system|thread|threads|trace|txt|warn"
)
_NO_LOG = re.compile(r"jstack|jcmd|dump|thread|stack|javacore|py-?spy|metrics|jmx|prom", re.IGNORECASE)
_LOG = re.compile(r"\.(?:log|out|txt)\b", re.IGNORECASE)
_ROLLED = re.compile(r"\.log\.\d+\b|\d{4}[-_.]?\d\d[-_.]?\d\d(?:[-_.T]?\d+)*", re.IGNORECASE)


def own_processes(names: Sequence[str]) -> dict[str, str]:
    """File → process, of logs that are several processes' and the files named after these; {} where they are one's."""
    words = {name: _words(name) for name in names if not re.match(r"readme|truth\.json", name, re.IGNORECASE)}
    logs = {words[name] for name in words if _LOG.search(name) and not _NO_LOG.search(name)}
    # The parts that a log was rolled into are one.
    logs = {log for log in logs if not (len(log) > 1 and log[-1].isdigit() and log[:-1] in logs)}
    if len(logs) < 2 or () in logs:
        return {}
    logs_by_name = {
        name: next((log for log in logs if log == own[: len(log)] or log == own[-len(log) :]), ())
        for name, own in words.items()
    }
    return {} if () in logs_by_name.values() else {name: "-".join(log) for name, log in logs_by_name.items()}


def _words(name: str) -> tuple[str, ...]:
    """What a file's name says of whose it is; () where that is nothing."""
    bare = re.sub(r"\.(gz|bz2|xz|zst|zip|tgz|tar)\b", "", _ROLLED.sub(".log", name), flags=re.IGNORECASE)
    words = tuple(word for word in re.split(r"[-_. ]+", bare.lower()) if word and not _GENERAL.fullmatch(word))
    return words if any(re.search("[a-z]", word) for word in words) else ()


def named(writer: str) -> tuple[str, str]:
    """Service and instance of a writer of lines: `web-1` is of web; `pod/web-7d9f-x/app` and `host app[12]` too."""
    last = writer.split(" ")[-1] if " " in writer else writer
    name = re.sub(r"\[\d+\]$", "", last)
    parts = name.removeprefix("pod/").split("/")
    service = re.sub(r"(?:-[a-z0-9]{6,10}-[a-z0-9]{5}|[-_]\d{1,4})$", "", parts[0])
    return service or writer, writer


def stem(name: str) -> str:
    """A file's name without its endings."""
    bare = re.sub(r"\.(gz|bz2|xz|zst|zip|tgz)$", "", name, flags=re.IGNORECASE)
    return bare.removesuffix(".tar").rsplit(".", 1)[0] or name
