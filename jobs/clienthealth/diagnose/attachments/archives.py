"""Packed files: streams that are unpacked while they are read, and archives that are unpacked into a folder.

An archive is not trusted. Names are made harmless, and links are left out. The unpacked size is bounded by a multiple
of the packed one, so that a few bytes cannot fill the disk.
"""

from __future__ import annotations

import bz2
import lzma
import os
import re
import tarfile
import time
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, Protocol, cast

from clienthealth.diagnose.attachments import kinds
from clienthealth.model.errors import InputError

CHUNK = 1 << 16
MAX_MEMBERS = 20_000
#: Unpacked, nothing may be larger than this and the packed size times so much: logs pack to a hundredth, bombs better.
BASE_BYTES, MAX_RATIO = 1 << 28, 200
_UNSAFE = re.compile(r"[^\w.+@=, -]")


class UnreadableError(InputError):
    """Why a part of an input cannot be read, in words."""


class Readable(Protocol):
    """What can be read from, and only that."""

    def read(self, size: int = -1, /) -> bytes:
        """At most so many bytes; b'' at the end."""
        ...


class Unpacked:
    """The content of a packed stream. Raises UnreadableError where it is cut, damaged, or too large."""

    def __init__(self, raw: Readable, packing: kinds.Packing, limit: int) -> None:
        self._raw, self._make, self._limit = raw, _decompressor(packing), limit
        self._engine: Any = self._make()
        self._waiting, self._out, self._size = b"", b"", 0
        self._damage: str | None = None

    def read(self, size: int = -1, /) -> bytes:
        """At most `size` bytes (a chunk where negative); b'' at the end."""
        while not self._out:
            if self._damage is not None:
                raise UnreadableError(self._damage)
            if not self._more():
                return b""
        size = len(self._out) if size < 0 else size
        data, self._out = self._out[:size], self._out[size:]
        return data

    def _more(self) -> bool:
        if self._engine.eof:
            self._waiting = self._engine.unused_data.lstrip(b"\0")
            self._waiting = self._waiting or self._raw.read(CHUNK).lstrip(b"\0")
            if not self._waiting:
                return False
            self._engine = self._make()
        hungry = getattr(self._engine, "needs_input", True)
        data = self._waiting or (self._raw.read(CHUNK) if hungry else b"")
        self._waiting = b""
        if not data and hungry:
            self._damage = "it ends in the middle of the packed data"
            return True
        try:
            self._out = self._unpack(data)
        except (zlib.error, OSError, EOFError, lzma.LZMAError, ValueError, RuntimeError) as error:
            self._damage = f"the packed data is damaged ({error})"
            return True
        self._size += len(self._out)
        if self._size > self._limit:
            self._damage, self._out = f"it unpacks to more than {self._limit >> 20} MiB, which looks like a bomb", b""
        return True

    def _unpack(self, data: bytes) -> bytes:
        engine = self._engine
        if hasattr(engine, "unconsumed_tail"):
            unpacked: bytes = engine.decompress(data, 1 << 20)
            self._waiting = engine.unconsumed_tail
            return unpacked
        if hasattr(engine, "needs_input"):
            unpacked = engine.decompress(data, 1 << 20)
            return unpacked
        unpacked = engine.decompress(data)
        return unpacked


def _decompressor(packing: kinds.Packing) -> Callable[[], Any]:
    if packing == "gz":
        return lambda: zlib.decompressobj(31)
    if packing == "bz2":
        return bz2.BZ2Decompressor
    if packing == "xz":
        return lzma.LZMADecompressor
    return _zstd()


def _zstd() -> Callable[[], Any]:
    if find_spec("zstandard") is None:
        raise UnreadableError("zstd needs one more package: pip install zstandard (or unpack it first: zstd -d)")
    return _Zstd


class _Zstd:
    """zstandard's decompressor with the interface of the standard library's: so much comes out at a time."""

    PIECE = 1024

    def __init__(self) -> None:
        zstandard = import_module("zstandard")
        self._engine: Any = zstandard.ZstdDecompressor().decompressobj()
        self._damage: type[Exception] = zstandard.ZstdError
        self._held = b""

    @property
    def eof(self) -> bool:
        return bool(self._engine.eof)

    @property
    def unused_data(self) -> bytes:
        return bytes(self._engine.unused_data) + self._held

    @property
    def needs_input(self) -> bool:
        return not self._held

    def decompress(self, data: bytes, most: int) -> bytes:
        """Raises ValueError where the data is damaged."""
        self._held += data
        pieces: list[bytes] = []
        try:
            while self._held and not self.eof and sum(map(len, pieces)) < most:
                piece, self._held = self._held[: self.PIECE], self._held[self.PIECE :]
                pieces.append(self._engine.decompress(piece))
        except self._damage as error:
            raise ValueError(str(error)) from error
        return b"".join(pieces)


def limit_of(size: int) -> int:
    """To how many bytes a packed file of this size may be unpacked."""
    return BASE_BYTES + MAX_RATIO * size


def extract(raw: Readable, packing: kinds.Packing, folder: Path, limit: int) -> Iterator[tuple[str, str, bool]]:
    """Unpack a zip or tar into an empty folder. Gives what was left out: its name, why, and may it be evidence?

    Raises UnreadableError where the whole of it cannot be read (what was unpacked before stays).
    """
    try:
        yield from (_zip if packing == "zip" else _tar)(raw, folder, limit)
    except (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, lzma.LZMAError, NotImplementedError) as error:
        raise UnreadableError(f"the archive is damaged or cut ({error})") from error


def _zip(raw: Readable, folder: Path, limit: int) -> Iterator[tuple[str, str, bool]]:
    left = limit
    with zipfile.ZipFile(cast(IO[bytes], raw)) as archive:
        members = archive.infolist()
        if what := kinds.document([member.filename for member in members]):
            yield "", what, False
            return
        for number, member in enumerate(members):
            if member.is_dir():
                continue
            name = member.filename
            if number >= MAX_MEMBERS:
                raise UnreadableError(f"it holds more than {MAX_MEMBERS} files")
            if member.flag_bits & 1:
                yield name, "encrypted", True
                continue
            try:
                with archive.open(member) as content:
                    left -= yield from _member(name, content, folder, left, _zip_time(member))
            except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError, OSError) as error:
                yield name, f"damaged ({error})", True


def _zip_time(member: zipfile.ZipInfo) -> float | None:
    try:
        return time.mktime((*member.date_time, 0, 0, -1)) if member.date_time[0] > 1980 else None
    except (ValueError, OverflowError):
        return None


def _tar(raw: Readable, folder: Path, limit: int) -> Iterator[tuple[str, str, bool]]:
    left = limit
    # Its members are read in their order: a stream need not be able to go back.
    with tarfile.open(fileobj=cast(IO[bytes], raw), mode="r|") as archive:
        for number, member in enumerate(archive):
            if number >= MAX_MEMBERS:
                raise UnreadableError(f"it holds more than {MAX_MEMBERS} files")
            content = archive.extractfile(member) if member.isfile() else None
            if content is not None:
                left -= yield from _member(member.name, content, folder, left, float(member.mtime))


def _member(
    name: str, content: IO[bytes], folder: Path, left: int, written: float | None
) -> Generator[tuple[str, str, bool], None, int]:
    """Write a member to the folder; how many bytes it had."""
    path = folder / safe(name)
    size = 0
    head = content.read(CHUNK)
    if what := kinds.no_evidence(Path(name).name, head):
        yield name, what, False
        return 0
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as out:
        chunk = head
        while chunk:
            size += len(chunk)
            if size > left:
                raise UnreadableError("it unpacks to so much that it looks like a bomb")
            out.write(chunk)
            chunk = content.read(CHUNK)
    if written is not None and written > 0:
        os.utime(path, (written, written))
    return size


def safe(name: str) -> Path:
    """A member's name as a path that stays below the folder."""
    parts = [_UNSAFE.sub("_", part)[:200] for part in name.replace("\\", "/").split("/")]
    return Path(*([part for part in parts if part not in ("", ".", "..")] or ["unnamed"]))
