"""What a file is by its first bytes or its name, where it is no text: an archive, or no evidence at all."""

from __future__ import annotations

from typing import Literal

Packing = Literal["gz", "bz2", "xz", "zst", "zip", "tar"]

_PACKED: tuple[tuple[bytes, Packing], ...] = (
    (b"\x1f\x8b", "gz"),
    (b"BZh", "bz2"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"\x28\xb5\x2f\xfd", "zst"),
    (b"PK\x03\x04", "zip"),
    (b"PK\x05\x06", "zip"),
)
_TAR_MAGIC, _TAR_AT = b"ustar", 257
#: First bytes → what it is. None of it speaks of a client in a way that we can read.
_NO_EVIDENCE: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n", "an image"),
    (b"\xff\xd8\xff", "an image"),
    (b"GIF8", "an image"),
    (b"BM\x00", "an image"),
    (b"%PDF-", "a PDF"),
    (b"\xca\xfe\xba\xbe", "a Java class"),
    (b"\x7fELF", "a program or its core"),
    (b"\xd4\xc3\xb2\xa1", "a network trace"),
    (b"\xa1\xb2\xc3\xd4", "a network trace"),
    (b"\x4d\x3c\xb2\xa1", "a network trace"),
    (b"\x0a\x0d\x0d\x0a", "a network trace"),
    (b"PAR1", "a table of data"),
    (b"Obj\x01", "a table of data"),
    (b"MZ\x90", "a program"),
    (b"JAVA PROFILE ", "a heap dump"),
    (b"FLR\x00", "a flight recording"),
    (b"goroutine ", "stacks of a Go program"),
    (b"SQLite format 3\x00", "a database"),
    (b"\xd0\xcf\x11\xe0", "an Office document"),
)
_BY_ENDING: dict[str, str] = {
    **dict.fromkeys(("png", "jpg", "jpeg", "gif", "bmp", "webp", "ico", "svg", "heic", "tif", "tiff"), "an image"),
    **dict.fromkeys(("mp4", "mov", "avi", "webm", "mp3", "wav"), "a video or sound"),
    **dict.fromkeys(("doc", "docx", "xls", "xlsx", "ppt", "pptx", "odt", "ods"), "an Office document"),
    **dict.fromkeys(("jar", "war", "ear", "apk"), "a Java archive"),
    **dict.fromkeys(("so", "dll", "exe", "dylib", "o", "a", "pyc", "whl"), "a program"),
    **dict.fromkeys(("ttf", "woff", "woff2"), "a font"),
    "pdf": "a PDF",
    "class": "a Java class",
    "hprof": "a heap dump",
    "jfr": "a flight recording",
    "db": "a database",
    "pcap": "a network trace",
    "pcapng": "a network trace",
}
#: Archives that we cannot open: they may hold evidence.
_CLOSED = {b"7z\xbc\xaf\x27\x1c": "a 7z archive", b"Rar!\x1a\x07": "a RAR archive"}
_NAMES = {
    "truth.json": "what the recorder knows, no evidence",
    "readme.md": "a note, no evidence",
    "loop-lines-per-second.txt": "counts of a recorder, no evidence",
    ".ds_store": "a file of the desktop",
    "thumbs.db": "a file of the desktop",
}
#: What people pack into an archive that is a document or a program of its own.
_INSIDE = {"word/": "an Office document", "xl/": "an Office document", "ppt/": "an Office document"}


def packing(head: bytes) -> Packing | None:
    """How a file is packed, by its first bytes; None where it is not."""
    if head[_TAR_AT : _TAR_AT + len(_TAR_MAGIC)] == _TAR_MAGIC:
        return "tar"
    return next((name for magic, name in _PACKED if head.startswith(magic)), None)


def no_evidence(name: str, head: bytes) -> str | None:
    """Why a file is not read: in words, what it is; None for what may be evidence."""
    by_name = _NAMES.get(name.lower()) or next((what for magic, what in _NO_EVIDENCE if head.startswith(magic)), None)
    return by_name or _BY_ENDING.get(name.lower().rpartition(".")[2] if "." in name else "")


def closed(head: bytes) -> str | None:
    """What an archive is that we cannot open, None for all else."""
    return next((what for magic, what in _CLOSED.items() if head.startswith(magic)), None)


def document(members: list[str]) -> str | None:
    """What a zip is by the names in it, where it is no archive of files."""
    if "META-INF/MANIFEST.MF" in members:
        return "a Java archive"
    return next((what for start, what in _INSIDE.items() if any(m.startswith(start) for m in members)), None)
