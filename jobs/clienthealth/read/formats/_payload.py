"""Unpack a payload: compression, and the frame of a schema registry.

Compressed payloads are recognised by their first bytes: gzip (RFC 1952) and zstd (RFC 8878). Clients and collectors use
these if they cannot configure Kafka's own compression. A schema registry's serializers put a zero and the schema's
number before the data (Confluent's wire format). For protobuf they also put the path of the message there.
"""

from __future__ import annotations

import zlib
from typing import Any

from clienthealth.read.formats._protobuf import NotAMessageError, varint

GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_FRAME = 5


class PayloadError(ValueError):
    """A payload cannot be unpacked. The message is the reason for the reject."""


def unpacked(data: bytes | memoryview, most: int) -> bytes | memoryview:
    """Return the payload without compression. Raises PayloadError if it is broken or exceeds `most` bytes."""
    head = bytes(data[:4])
    broken: type[Exception]
    if head.startswith(GZIP):
        kind, reader, broken = "gzip", zlib.decompressobj(wbits=31), zlib.error
    elif head == ZSTD:
        kind, reader, broken = "zstd", *_zstd()
    else:
        return data
    plain = bytearray()
    try:
        # Decompress in pieces, to check the size limit before much memory is used. A piece of 4 KiB becomes at most 4
        # MiB (gzip), or its own blocks of at most 128 KiB (zstd).
        for at in range(0, len(data), 4096):
            plain += reader.decompress(bytes(data[at : at + 4096]))
            if len(plain) > most:
                raise PayloadError("oversized")
    except broken:
        raise PayloadError(f"binary: broken {kind}") from None
    if not reader.eof:
        raise PayloadError(f"binary: {kind} that ends before its end")
    return bytes(plain)


def _zstd() -> tuple[Any, type[Exception]]:
    try:
        import zstandard
    except ModuleNotFoundError:
        raise PayloadError("binary: packed with zstd: pip install 'kafka-client-health[binary]'") from None
    return zstandard.ZstdDecompressor(max_window_size=1 << 27).decompressobj(), zstandard.ZstdError


def framed(data: bytes | memoryview) -> tuple[int, memoryview] | None:
    """Return the schema's number and the data after the frame; None if the payload has no such frame."""
    if len(data) <= _FRAME or data[0] != 0:
        return None
    view = memoryview(data)
    return int.from_bytes(view[1:_FRAME], "big"), view[_FRAME:]


def without_message_path(data: memoryview) -> memoryview:
    """Return the data after the path that locates a protobuf message in its schema.

    The path is a list of zigzag numbers. The first number is the count of the others. Raises PayloadError if there is
    no such path.
    """
    try:
        count, at = varint(data, 0, len(data))
        for _ in range(count >> 1 ^ -(count & 1)):
            _, at = varint(data, at, len(data))
    except NotAMessageError:
        raise PayloadError(
            "binary: begins as protobuf of a schema registry does, but does not name the message of the schema"
        ) from None
    return data[at:]
