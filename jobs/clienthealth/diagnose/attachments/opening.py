"""Open the inputs of `diagnose` as named streams of bytes: files, folders, archives (also nested), standard input.

These rules assign an input to a process:

- All files of a folder or archive belong to one process.
- An inner folder is a separate process, unless its name only states the kind or time of its files (`logs/`).
- `X-metrics.jsonl` and `X.log` belong to a process X.
- Several logs (`worker-1.log`, `worker-2.log`) belong to separate processes if the name of each other file
  (`worker-1-dump.txt`) begins or ends with the name of a log (`worker-1`).
- If the prefixes of a log's lines name several pods or programs, each pod or program is a separate process.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Literal

from clienthealth.diagnose.attachments import archives
from clienthealth.diagnose.attachments.archives import CHUNK, Readable, Unpacked, UnreadableError, extract
from clienthealth.diagnose.attachments.text import Read
from clienthealth.model.errors import InputError
from clienthealth.read.recordings import second_process

CUT, EXPLAINED = "the last line has no line end", "quoted in an explanation"


@dataclass
class Input:
    """One file, part of an archive, or standard input. The items of an input are log lines, thread dumps or samples.

    `name`          the name that the user knows: `support.zip/logs/app.log`; `stdin` for standard input
    `what`          kind of content, as shown to the user: `log`, `thread dump (jcmd)`, `metrics.jsonl`, `a Java
                    archive`
    `read`          number of lines in the input (for metrics: records)
    `used`          the number of lines that can support a verdict
    `start_ms`      time of the first used item, epoch ms; None if no used item has a time
    `end_ms`        time of the last used item
    `dated`         False if the items have a time of day but no date
    `named`         what items without a time got from the file's name: 'day' (date and time), 'clock' (time of day),
                    '' (nothing)
    `local`         True if the items' times name no zone; they are then read as UTC
    `zone_ms`       duration (ms) to add to the items' times to get UTC; None if unknown
    `emptied`       number of records at the end of the input that lack client metrics; 0 if all records of the input
                    lack client metrics
    `timed`         False if the items' times are made up, and show only the order of the items
    `left_out`      number of left-out lines about Kafka, by reason
    `unread`        number of lines that may be evidence but could not be read, by reason
    `process`       the process that wrote the input: (service, instance or host); None if unknown
    `topics`        the names of this input in `Source.topic` of evidence; these names are not names of Kafka topics
    `names_client`  True if any line names a Kafka client, or a class of a client's library
    """

    name: str
    what: str = ""
    read: int = 0
    used: int = 0
    start_ms: int | None = None
    end_ms: int | None = None
    dated: bool = True
    named: Literal["", "clock", "day"] = ""
    local: bool = False
    zone_ms: int | None = None
    emptied: int = 0
    timed: bool = True
    left_out: dict[str, int] = field(default_factory=dict)
    unread: dict[str, int] = field(default_factory=dict)
    process: tuple[str, str] | None = None
    topics: frozenset[str] = frozenset()
    names_client: bool = False

    @property
    def clocked(self) -> bool:
        """True if every used item has its own time with a date, or if no item is used."""
        return self.timed and self.dated and (self.start_ms is not None or not self.used)

    @property
    def span_ms(self) -> tuple[int, int] | None:
        """Times (epoch ms) of the first and the last used line, dump or sample; None without times."""
        return None if self.start_ms is None or self.end_ms is None else (self.start_ms, self.end_ms)

    def span(self, *times: int | None) -> None:
        """Extend the input's time range so that it contains these times (epoch ms)."""
        if known := [time for time in (self.start_ms, self.end_ms, *times) if time is not None]:
            self.start_ms, self.end_ms = min(known), max(known)

    def shift(self, ms: int) -> None:
        """Shift the input's time range by `ms` milliseconds."""
        if self.span_ms is not None:
            self.start_ms, self.end_ms = (time + ms for time in self.span_ms)

    def leave_out(self, why: str) -> None:
        """Count one more line (or record) that is left out for the reason `why`."""
        self.left_out[why] = self.left_out.get(why, 0) + 1

    def cannot_read(self, why: str, count: int = 1) -> None:
        """Count lines (or other parts) that could not be read for the reason `why`."""
        self.unread[why] = self.unread.get(why, 0) + count


#: Words in file names that describe the content, not the process.
_GENERAL = re.compile(
    r"app|application|audit|client|console|csv|debug|dump|dumps|err|error|gc|info|json|"
    r"jsonl|kafka|log|logs|main|messages|metrics|ndjson|out|output|root|server|stack|stacks|"
    r"stderr|stdout|sys|syslog|system|thread|threads|trace|txt|warn"
)
_NO_LOG = re.compile(r"jstack|jcmd|dump|thread|stack|javacore|py-?spy|metrics|jmx|prom", re.IGNORECASE)
_LOG = re.compile(r"\.(?:log|out|txt)\b", re.IGNORECASE)
_ROLLED = re.compile(r"\.log\.\d+\b|\d{4}[-_.]?\d\d[-_.]?\d\d(?:[-_.T]?\d+)*", re.IGNORECASE)


def own_processes(names: Sequence[str]) -> dict[str, str]:
    """Map each file's name to its process: `worker-1` for `worker-1.log` and `worker-1-dump.txt`.

    Returns {} if there is only one log, if a log has a general name (`app.log`), or if another file's name neither
    begins nor ends with a log's name.
    """
    words = {name: _words(name) for name in names if not re.match(r"readme|truth\.json", name, re.IGNORECASE)}
    logs = {words[name] for name in words if _LOG.search(name) and not _NO_LOG.search(name)}
    # `app.log.1` beside `app.log` is a rotated part, not a separate log.
    logs = {log for log in logs if not (len(log) > 1 and log[-1].isdigit() and log[:-1] in logs)}
    if len(logs) < 2 or () in logs:
        return {}
    logs_by_name = {
        name: next((log for log in logs if log == own[: len(log)] or log == own[-len(log) :]), ())
        for name, own in words.items()
    }
    return {} if () in logs_by_name.values() else {name: "-".join(log) for name, log in logs_by_name.items()}


def _words(name: str) -> tuple[str, ...]:
    bare = re.sub(r"\.(gz|bz2|xz|zst|zip|tgz|tar)\b", "", _ROLLED.sub(".log", name), flags=re.IGNORECASE)
    words = tuple(word for word in re.split(r"[-_. ]+", bare.lower()) if word and not _GENERAL.fullmatch(word))
    return words if any(re.search("[a-z]", word) for word in words) else ()


def named(writer: str) -> tuple[str, str]:
    """Return (service, instance) of the pod, container or program that wrote a log line.

    `writer`: the name in the line's prefix. The instance is the whole name. The service is a part of the name: `web` in
    `web-1` or `pod/web-7d9f8c6b54-x2x4z/app`; `app` in `host app[12]`.
    """
    last = writer.split(" ")[-1] if " " in writer else writer
    name = re.sub(r"\[\d+\]$", "", last)
    parts = name.removeprefix("pod/").split("/")
    service = re.sub(r"(?:-[a-z0-9]{6,10}-[a-z0-9]{5}|[-_]\d{1,4})$", "", parts[0])
    return service or writer, writer


def stem(name: str) -> str:
    """Return a file's name without its extension and the endings that packing added: `app` for `app.log.gz`."""
    bare = re.sub(r"\.(gz|bz2|xz|zst|zip|tgz)$", "", name, flags=re.IGNORECASE)
    return bare.removesuffix(".tar").rsplit(".", 1)[0] or name


STDIN = "-"
MAX_DEPTH = 5
HEAD = 1 << 16
#: Names of folders that state only the kind or the time of the files in them.
_SORTING = re.compile(
    r"(?:logs?|(?:thread[-_ ]?|j)?(?:dumps?|stacks?)|threads?|metrics|jmx|prometheus|data|tmp|var|out(?:put)?|files|"
    r"attachments?|[\d_.:T-]+)",
    re.IGNORECASE,
)


@dataclass
class Stream:
    """A file to read.

    `process`  (service, instance) by the file's name and folder; the content may name another process
    `file`     the file's path in the folder or archive of its process
    `head`     the beginning of the file's content
    `read`     function that returns the rest of the file's content
    `file_ms`  time of the file's last modification, epoch ms; None if unknown
    `size`     the file's size in bytes (of a packed file: before unpacking); None if unknown
    """

    input: Input
    process: tuple[str, str]
    file: str
    head: bytes
    read: Read
    file_ms: int | None = None
    size: int | None = None


@dataclass(frozen=True)
class _Parent:
    """What a file inherits from its folder or archive.

    `shown`: the path of the folder or archive, as in `Input.name`. `depth`: depth of nesting in folders and archives,
    from 0. `given`: True if the user named the file itself, so that the file is read whatever its name is.
    """

    service: str
    instance: str
    shown: str = ""
    depth: int = 0
    given: bool = False


class Opener(ExitStack):
    """Opens the user's inputs one after the other. `inputs`: all inputs in order, also those that cannot be read."""

    def __init__(self, stdin: IO[bytes] | None = None) -> None:
        super().__init__()
        self.inputs: list[Input] = []
        self._stdin = stdin

    def streams(self, paths: Sequence[Path]) -> Iterator[Stream]:
        """Yield all files of these paths. A file that cannot be opened is only noted in `inputs`.

        Raises InputError for a path that does not exist, and for `-` (standard input) if `stdin` is None.
        """
        for path in paths:
            if str(path) != STDIN and not path.exists():
                raise InputError(f"{path}: no such file or folder")
        loose: dict[Path, list[Path]] = {}
        for path in paths:
            if str(path) == STDIN:
                if self._stdin is None:
                    raise InputError("'-' (standard input) cannot be read here: name a file or folder")
                head = _head(self._stdin.read)
                yield from self._content(head, self._stdin, "stdin", _Parent("stdin", "stdin"), None, None)
            elif path.is_dir():
                yield from self._folder(
                    path, _Parent(path.resolve().name, path.resolve().name, f"{path.name or path}/")
                )
            else:
                loose.setdefault(path.resolve().parent, []).append(path)
        for folder, files in loose.items():
            if len(files) == 1:
                name = stem(files[0].name)
                yield from self._file(files[0], files[0].name, _Parent(name, name, given=True))
            else:
                yield from self._files(files, _Parent(folder.name or "files", folder.name or "files", given=True))

    def _folder(self, folder: Path, parent: _Parent) -> Iterator[Stream]:
        files: list[Path] = []
        processes: list[Path] = []
        sorted_by = [folder]
        for place in sorted_by:
            try:
                paths = sorted(place.iterdir())
            except OSError as error:
                self._input(_below(place, folder), parent, "a folder", f"cannot be opened ({error.strerror})")
                continue
            for path in paths:
                if path.is_symlink() and not (path.is_file() and folder not in path.resolve().parents):
                    self._input(_below(path, folder), parent, "a link")
                elif path.is_file():
                    files.append(path)
                elif path.is_dir() and not path.name.startswith((".", "__MACOSX")) and parent.depth <= 20:
                    (sorted_by if _SORTING.fullmatch(path.name) else processes).append(path)
        for inner in processes:
            shown = f"{parent.shown}{_below(inner, folder)}/"
            yield from self._folder(inner, _Parent(inner.name, inner.name, shown, parent.depth + 1))
        yield from self._files(files, parent, folder)

    def _files(self, files: Sequence[Path], parent: _Parent, folder: Path | None = None) -> Iterator[Stream]:
        process_of = second_process([stem(file.name) for file in files])
        own = own_processes([file.name for file in files])
        for file in files:
            second = own.get(file.name) or process_of(stem(file.name))
            instance = f"{parent.instance}/{second}" if second else parent.instance
            shown = str(file.relative_to(folder)) if folder is not None else file.name
            yield from self._file(file, shown, replace(parent, instance=instance))

    def _file(self, file: Path, shown: str, parent: _Parent) -> Iterator[Stream]:
        try:
            with file.open("rb") as raw:
                about = file.stat()
                yield from self._content(_head(raw.read), raw, shown, parent, int(about.st_mtime * 1000), about.st_size)
        except OSError as error:
            self._input(shown, parent, "a file", f"cannot be opened ({error.strerror})")

    def _content(
        self, head: bytes, raw: Readable, shown: str, parent: _Parent, file_ms: int | None, size: int | None
    ) -> Iterator[Stream]:
        name = shown.rpartition("/")[2]
        if what := archives.no_evidence("" if parent.given else name, head):
            self._input(shown, parent, what)
            return
        if what := archives.closed(head):
            self._input(shown, parent, what, "an archive that cannot be opened here")
            return
        if (packing := archives.packing(head)) is None:
            process = parent.service, parent.instance
            yield Stream(self._input(shown, parent), process, shown, head, raw.read, file_ms, size)
            return
        if parent.depth >= MAX_DEPTH:
            self._input(shown, parent, "an archive", f"packed more than {MAX_DEPTH} times")
            return
        # A packed file of unknown size gets the limit of a large attachment (16 MiB).
        limit = archives.BASE_BYTES + archives.MAX_RATIO * (1 << 24 if size is None else size)
        within = replace(parent, depth=parent.depth + 1)
        try:
            if packing in ("zip", "tar", "eml"):
                yield from self._archive(head, raw, shown, within, packing, limit)
            else:
                unpacked = Unpacked(_Joined(head, raw), packing, limit)
                inner = _head(unpacked.read)
                bare = re.sub(r"\.(gz|bz2|xz|zst|tgz)$", "", shown, flags=re.IGNORECASE)
                yield from self._content(inner, unpacked, bare, within, file_ms, size)
        except UnreadableError as error:
            self._input(shown, parent, "packed", str(error))

    def _archive(
        self, head: bytes, raw: Readable, shown: str, parent: _Parent, packing: archives.Packing, limit: int
    ) -> Iterator[Stream]:
        folder = Path(self.enter_context(tempfile.TemporaryDirectory(prefix="kafka-health-")))
        content: Readable = _Joined(head, raw)
        if packing == "zip":
            # Copy the stream to a file: a zip's index is at the zip's end, and a stream cannot be read backwards.
            spool = self.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
            shutil.copyfileobj(content, spool, CHUNK)
            spool.seek(0)
            content = spool
        damage = ""
        left_out: list[tuple[str, str, bool]] = []
        try:
            left_out.extend(extract(content, packing, folder, limit))
        except UnreadableError as error:
            damage = str(error)
        top = folder
        while len(inside := list(top.iterdir())) == 1 and inside[0].is_dir() and not _SORTING.fullmatch(inside[0].name):
            top = inside[0]
        within = f"{top.relative_to(folder)}/"
        for name, why, may_be_evidence in left_out:
            shown_as = f"{shown}/{name.removeprefix(within)}" if name else shown
            self._input(shown_as, parent, *(("", why) if may_be_evidence else (why, "")))
        if parent.depth == 1:
            name = top.name if top != folder else stem(shown)
            parent = _Parent(name, name, parent.shown, parent.depth)
        yield from self._folder(top, _Parent(parent.service, parent.instance, f"{parent.shown}{shown}/", parent.depth))
        if damage:
            self._input(shown, parent, "an archive", damage)

    def _input(self, shown: str, parent: _Parent, what: str = "", unread: str = "") -> Input:
        """Add a file to the list of inputs. `unread`: why a file that may be evidence is not read, '' for others."""
        entered = Input(f"{parent.shown}{shown}", what, process=(parent.service, parent.instance))
        if unread:
            entered.cannot_read(unread)
        elif what:
            entered.left_out = {"no evidence": 1}
        self.inputs.append(entered)
        return entered


class _Joined:
    def __init__(self, head: bytes, rest: Readable) -> None:
        self._head, self._rest = head, rest

    def read(self, size: int = -1, /) -> bytes:
        if not self._head:
            return self._rest.read(size)
        size = len(self._head) if size < 0 else size
        data, self._head = self._head[:size], self._head[size:]
        # Libraries that read archives expect `read(size)` to return `size` bytes, except at the end.
        while len(data) < size and (more := self._rest.read(size - len(data))):
            data += more
        return data


def _below(path: Path, folder: Path) -> str:
    return "" if path == folder else str(path.relative_to(folder))


def _head(read: Read) -> bytes:
    """Return a file's first bytes; raise UnreadableError only if none can be read."""
    head = b""
    try:
        while len(head) < HEAD and (chunk := read(HEAD - len(head))):
            head += chunk
    except UnreadableError:
        if not head:
            raise
    return head
