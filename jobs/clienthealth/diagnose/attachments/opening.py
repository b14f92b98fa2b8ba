"""What was given to `diagnose` as named streams of bytes: files, folders, archives (nested, too), standard input.

A folder or archive is one process, and so are files that are given together; folders in it are processes of their
own, unless they only sort its files (`logs/`, `dumps/`). `X-metrics.jsonl` and `X.log` are a second process, named X.
Logs of several names (`worker-1.log`, `worker-2.log`) are each a process of its own where each of the other files is
named after one of them: nothing then says that they are one.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from clienthealth.diagnose.attachments import kinds
from clienthealth.diagnose.attachments.archives import CHUNK, Readable, Unpacked, UnreadableError, extract, limit_of
from clienthealth.diagnose.attachments.input import Input
from clienthealth.diagnose.attachments.text import Read
from clienthealth.diagnose.attachments.whose import own_processes, stem
from clienthealth.model.errors import InputError
from clienthealth.read.recordings import second_process

STDIN = "-"
MAX_DEPTH = 5
HEAD = 1 << 16
#: Folders that sort the files of one process, by kind or by time.
_SORTING = re.compile(
    r"(?:logs?|(?:thread[-_ ]?|j)?(?:dumps?|stacks?)|threads?|metrics|jmx|prometheus|data|tmp|var|out(?:put)?|files|"
    r"attachments?|[\d_.:T-]+)",
    re.IGNORECASE,
)


@dataclass
class Stream:
    """A file to be read: `head` is how it begins, `read` goes on from there. `file_ms`: when it was written last.

    process: (service, instance) that it is of, where it does not say that itself; file: its name within that
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
    """Where a file belongs: its process, and what stands before its name."""

    service: str
    instance: str
    shown: str = ""
    depth: int = 0


class Opener:
    """Opens what was given, one stream after the other. `inputs`: what became of each, in order."""

    def __init__(self, stdin: IO[bytes] | None = None) -> None:
        self.inputs: list[Input] = []
        self._stdin = stdin
        self._stack = ExitStack()

    def __enter__(self) -> Opener:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def streams(self, paths: Sequence[Path]) -> Iterator[Stream]:
        """All files of these paths. Raises InputError for a path that is not there or cannot be opened."""
        for path in paths:
            if str(path) != STDIN and not path.exists():
                raise InputError(f"{path}: no such file or folder")
        loose: dict[Path, list[Path]] = {}
        for path in paths:
            if str(path) == STDIN:
                yield from self._standard_input()
            elif path.is_dir():
                yield from self._folder(
                    path, _Parent(path.resolve().name, path.resolve().name, f"{path.name or path}/")
                )
            else:
                loose.setdefault(path.resolve().parent, []).append(path)
        for folder, files in loose.items():
            if len(files) == 1:
                name = stem(files[0].name)
                yield from self._file(files[0], files[0].name, _Parent(name, name))
            else:
                yield from self._files(files, _Parent(folder.name or "files", folder.name or "files"))

    def _standard_input(self) -> Iterator[Stream]:
        if self._stdin is None:
            raise InputError("standard input cannot be read here")
        parent = _Parent("stdin", "stdin")
        yield from self._content(_head(self._stdin.read), self._stdin, "stdin", parent, None, None)

    def _seekable(self, content: Readable) -> Readable:
        """The content as a file of its own: of a zip the end is read first."""
        spool = self._stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
        while chunk := content.read(CHUNK):
            spool.write(chunk)
        spool.seek(0)
        return spool

    def _folder(self, folder: Path, parent: _Parent) -> Iterator[Stream]:
        try:
            paths = sorted(folder.iterdir())
        except OSError as error:
            self._input("", parent, "a folder", f"cannot be opened ({error.strerror})")
            return
        links = [path for path in paths if path.is_symlink()]
        followed = [path for path in links if path.is_file() and folder not in path.resolve().parents]
        for path in (path for path in links if path not in followed):
            self._input(path.name, parent, "a link")
        files = [path for path in paths if path.is_file() and not path.is_symlink()] + followed
        for inner in (path for path in paths if path.is_dir() and not path.is_symlink()):
            if inner.name.startswith((".", "__MACOSX")) or parent.depth > 20:
                continue
            if _SORTING.fullmatch(inner.name):
                files += sorted(path for path in inner.rglob("*") if path.is_file() and not path.is_symlink())
            else:
                shown = f"{parent.shown}{inner.name}/"
                yield from self._folder(inner, _Parent(inner.name, inner.name, shown, parent.depth + 1))
        yield from self._files(files, parent, folder)

    def _files(self, files: Sequence[Path], parent: _Parent, folder: Path | None = None) -> Iterator[Stream]:
        process_of = second_process([stem(file.name) for file in files])
        own = own_processes([file.name for file in files])
        for file in files:
            second = own.get(file.name) or process_of(stem(file.name))
            instance = f"{parent.instance}/{second}" if second else parent.instance
            shown = str(file.relative_to(folder)) if folder is not None else file.name
            yield from self._file(file, shown, _Parent(parent.service, instance, parent.shown, parent.depth))

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
        """What a file holds: itself, or what is packed in it."""
        name = shown.rpartition("/")[2]
        if what := kinds.no_evidence(name, head):
            self._input(shown, parent, what)
            return
        if what := kinds.closed(head):
            self._input(shown, parent, what, "an archive that cannot be opened here")
            return
        packing = kinds.packing(head)
        if packing is None:
            process = parent.service, parent.instance
            yield Stream(self._input(shown, parent), process, shown, head, raw.read, file_ms, size)
            return
        if parent.depth >= MAX_DEPTH:
            self._input(shown, parent, "an archive", f"packed more than {MAX_DEPTH} times")
            return
        # Where the size is not known, it is that of a large attachment.
        limit = limit_of(size if size is not None else 1 << 24)
        within = _Parent(parent.service, parent.instance, parent.shown, parent.depth + 1)
        try:
            if packing in ("zip", "tar"):
                yield from self._archive(head, raw, shown, within, packing, limit)
            else:
                unpacked = Unpacked(_Joined(head, raw), packing, limit)
                inner = _head(unpacked.read)
                bare = re.sub(r"\.(gz|bz2|xz|zst|tgz)$", "", shown, flags=re.IGNORECASE)
                yield from self._content(inner, unpacked, bare, within, file_ms, size)
        except UnreadableError as error:
            self._input(shown, parent, "packed", str(error))

    def _archive(
        self, head: bytes, raw: Readable, shown: str, parent: _Parent, packing: kinds.Packing, limit: int
    ) -> Iterator[Stream]:
        folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="kafka-health-")))
        content: Readable = _Joined(head, raw)
        if packing == "zip":
            content = self._seekable(content)
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
        """Enter a file into the list. `what`: of one that is not read; `unread`: it might have been evidence."""
        entered = Input(f"{parent.shown}{shown}", what, process=(parent.service, parent.instance))
        if unread:
            cannot_read(entered, unread)
        elif what:
            entered.left_out = {"no evidence": 1}
        self.inputs.append(entered)
        return entered


def cannot_read(attached: Input, why: str, count: int = 1) -> None:
    """Note that a part of an input could not be read, whatever it says."""
    attached.unread = {**attached.unread, why: attached.unread.get(why, 0) + count}


class _Joined:
    """What has been read of a stream already, and the rest of it."""

    def __init__(self, head: bytes, rest: Readable) -> None:
        self._head, self._rest = head, rest

    def read(self, size: int = -1, /) -> bytes:
        if not self._head:
            return self._rest.read(size)
        size = len(self._head) if size < 0 else size
        data, self._head = self._head[:size], self._head[size:]
        # Those who read archives expect to get as much as they ask for.
        while len(data) < size and (more := self._rest.read(size - len(data))):
            data += more
        return data


def _head(read: Read) -> bytes:
    """The first bytes, as many as are told apart by; what damage there is comes to light when the rest is read."""
    head = b""
    while len(head) < HEAD:
        try:
            chunk = read(HEAD - len(head))
        except UnreadableError:
            if not head:
                raise
            break
        if not chunk:
            break
        head += chunk
    return head
