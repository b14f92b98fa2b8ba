"""Unpack streams while they are read, and unpack archives into a folder.

Because archives are not trusted, names are made harmless, links are left out, and sizes are limited.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import re
import tarfile
import time
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import suppress
from email import message_from_bytes
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import IO, Any, Literal, Protocol, cast

from clienthealth.model.errors import InputError
from clienthealth.model.tables import table

Packing = Literal["gz", "bz2", "xz", "zst", "zip", "tar", "eml"]

_TAR_MAGIC, _TAR_AT = b"ustar", 257
#: The header fields of a saved mail (RFC 5322).
_MAIL = re.compile(rb"(?:[\w-]{1,80}:[^\n]*\n(?:[ \t][^\n]*\n)*){2,200}\r?\n")
_FILES: Mapping[str, Mapping[str, str]] = table(Path(__file__).with_suffix(".toml"))
_BY_ENDING = {ending: what for what, endings in _FILES["endings"].items() for ending in endings}


def packing(head: bytes) -> Packing | None:
    """Return the packing that a file's first bytes show; None if the file is not packed."""
    if (mail := _MAIL.match(head)) and b"\nmime-version:" in b"\n" + mail.group().lower():
        return "eml"
    return "tar" if head.startswith(_TAR_MAGIC, _TAR_AT) else cast(Packing | None, _begun(head, "packed"))


def no_evidence(name: str, head: bytes) -> str | None:
    """Return the type of a file without evidence, such as 'an image'; None for any other file."""
    known = _FILES["names"].get(name.lower()) or _begun(head, "begins")
    return known or _BY_ENDING.get(name.lower().rpartition(".")[2] if "." in name else "")


def closed(head: bytes) -> str | None:
    """Return the type of an archive that `diagnose` does not support; None for any other file."""
    return _begun(head, "closed")


def _begun(head: bytes, how: str) -> str | None:
    return next((what for magic, what in _FILES[how].items() if head.startswith(magic.encode("latin-1"))), None)


def document(members: list[str]) -> str | None:
    """Return the type of a zip that is a document or a jar; None for any other zip."""
    if "META-INF/MANIFEST.MF" in members:
        return "a Java archive"
    return next((what for start, what in _FILES["inside"].items() if any(m.startswith(start) for m in members)), None)


CHUNK = 1 << 16
MAX_MEMBERS = 20_000
#: The maximum unpacked size (bytes) is BASE_BYTES + MAX_RATIO × packed size. The unpacked size of a log is about
#: 100 × packed size.
BASE_BYTES, MAX_RATIO = 1 << 28, 200
_UNSAFE = re.compile(r"[^\w.+@=, -]")


class UnreadableError(InputError):
    """A part of an input cannot be read."""


class Readable(Protocol):
    """A reader of bytes."""

    def read(self, size: int = -1, /) -> bytes:
        """Return at most `size` bytes; b'' at the end."""
        ...


class Unpacked:
    """The content of a packed stream. `limit`: maximum number of unpacked bytes.

    Raises UnreadableError if the content is cut off, damaged or too large, or if the package for zstd is missing.
    """

    def __init__(self, raw: Readable, packing: Packing, limit: int) -> None:
        if packing == "zst" and find_spec("zstandard") is None:
            raise UnreadableError("zstd needs another package: pip install zstandard (or unpack the file with zstd -d)")
        self._content, self._limit, self._size, self._damage = _READERS[packing](raw), limit, 0, ""

    def read(self, size: int = -1, /) -> bytes:
        """Return at most `size` bytes; b'' at the end."""
        if not self._damage:
            try:
                data: bytes = self._content.read1(size if size > 0 else CHUNK)
                self._size += len(data)
                if self._size <= self._limit:
                    return data
                self._damage = f"the file unpacks to more than {self._limit >> 20} MiB and may be a zip bomb"
            except EOFError:
                self._damage = "the packed data is cut off"
            except (zlib.error, OSError, lzma.LZMAError, ValueError, RuntimeError) as error:
                self._damage = f"the packed data is damaged ({error})"
        raise UnreadableError(self._damage)


class _Zstd:
    """A zstd reader that raises EOFError for data that is cut off; zstandard's reader does not."""

    #: Number of compressed bytes per call. The number is small, because a few bytes of a zip bomb unpack to many bytes.
    PIECE = 1024

    def __init__(self, raw: Readable) -> None:
        zstandard = import_module("zstandard")
        self._frame: Callable[[], Any] = zstandard.ZstdDecompressor().decompressobj
        self._damage: type[Exception] = zstandard.ZstdError
        self._raw, self._engine, self._held = raw, self._frame(), b""

    def read1(self, _size: int, /) -> bytes:
        data = b""
        while not data:
            if self._engine.eof:
                self._held = (self._engine.unused_data + self._held or self._raw.read(CHUNK)).lstrip(b"\0")
                if not self._held:
                    return b""
                self._engine = self._frame()
            self._held = self._held or self._raw.read(CHUNK)
            if not self._held:
                raise EOFError
            piece, self._held = self._held[: self.PIECE], self._held[self.PIECE :]
            try:
                data = self._engine.decompress(piece)
            except self._damage as error:
                raise ValueError(str(error)) from error
        return data


_READERS: dict[str, Callable[[Any], Any]] = {
    "gz": lambda raw: gzip.GzipFile(fileobj=raw),
    "bz2": bz2.BZ2File,
    "xz": lzma.LZMAFile,
    "zst": _Zstd,
}


def extract(raw: Readable, packing: Packing, folder: Path, limit: int) -> Iterator[tuple[str, str, bool]]:
    """Unpack a zip, a tar or a mail into an empty folder. `limit`: maximum number of unpacked bytes.

    Yields (name, reason, flag) for each member that is left out. The flag is True if the member may be evidence. The
    name is '' if the whole archive is left out. Raises UnreadableError if the archive is damaged or too large.
    """
    try:
        yield from {"zip": _zip, "eml": _mail}.get(packing, _tar)(raw, folder, limit)
    except (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, lzma.LZMAError, NotImplementedError) as error:
        raise UnreadableError(f"the archive is damaged or cut off ({error})") from error


def _zip(raw: Readable, folder: Path, limit: int) -> Iterator[tuple[str, str, bool]]:
    left = limit
    with zipfile.ZipFile(cast(IO[bytes], raw)) as archive:
        members = archive.infolist()
        if what := document([member.filename for member in members]):
            yield "", what, False
            return
        for number, member in enumerate(members):
            if member.is_dir():
                continue
            name = member.filename
            if number >= MAX_MEMBERS:
                raise UnreadableError(f"the archive has more than {MAX_MEMBERS} files")
            if member.flag_bits & 1:
                yield name, "encrypted", True
                continue
            try:
                with archive.open(member) as content:
                    written: float | None = None
                    with suppress(ValueError, OverflowError):
                        written = time.mktime((*member.date_time, 0, 0, -1)) if member.date_time[0] > 1980 else None
                    left -= yield from _member(name, content, folder, left, written)
            except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError, OSError) as error:
                yield name, f"damaged ({error})", True


def _tar(raw: Readable, folder: Path, limit: int) -> Iterator[tuple[str, str, bool]]:
    left = limit
    # Members are read in order, because the stream may be unable to seek backwards.
    with tarfile.open(fileobj=cast(IO[bytes], raw), mode="r|") as archive:
        for number, member in enumerate(archive):
            if number >= MAX_MEMBERS:
                raise UnreadableError(f"the archive has more than {MAX_MEMBERS} files")
            content = archive.extractfile(member) if member.isfile() else None
            if content is not None:
                left -= yield from _member(member.name, content, folder, left, float(member.mtime))


def _mail(raw: Readable, folder: Path, limit: int) -> Iterator[tuple[str, str, bool]]:
    left, message = limit, message_from_bytes(b"".join(iter(partial(raw.read, CHUNK), b"")))
    parts = [part for part in message.walk() if not part.is_multipart()]
    # Mail programs write the same text twice, as HTML and as plain text. If there is plain text, HTML is not needed.
    plain = any(part.get_content_type() == "text/plain" for part in parts)
    for number, part in enumerate(parts):
        if (name := part.get_filename()) or not plain or part.get_content_type() != "text/html":
            content = io.BytesIO(cast(bytes, part.get_payload(decode=True)))
            left -= yield from _member(name or f"text-{number}", content, folder, left, None)


def _member(
    name: str, content: IO[bytes], folder: Path, left: int, written: float | None
) -> Generator[tuple[str, str, bool], None, int]:
    """Write a member and return its size (bytes); return 0 if the member is left out."""
    path = folder / safe(name)
    while path.exists():
        path = path.with_name(f"_{path.name}")
    size = 0
    head = content.read(CHUNK)
    if what := no_evidence(Path(name).name, head):
        yield name, what, False
        return 0
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        out = path.open("wb")
    except OSError as error:
        yield name, f"cannot be unpacked ({error.strerror})", True
        return 0
    with out:
        for chunk in chain((head,), iter(partial(content.read, CHUNK), b"")):
            size += len(chunk)
            if size > left:
                raise UnreadableError("the archive unpacks to too much data and may be a zip bomb")
            out.write(chunk)
    if written is not None and written > 0:
        os.utime(path, (written, written))
    return size


def safe(name: str) -> Path:
    """Return a member's name as a path that cannot leave the folder."""
    parts = [_UNSAFE.sub("_", part).encode()[:200] for part in name.replace("\\", "/").split("/")]
    return Path(*([part.decode(errors="ignore") for part in parts if part not in (b"", b".", b"..")] or ["unnamed"]))
