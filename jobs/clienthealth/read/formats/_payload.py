"""Unpack a payload: compression, and the frame of a schema registry.

Compressed payloads are recognised by their first bytes: gzip (RFC 1952) and zstd (RFC 8878), which clients and
collectors use if they cannot configure Kafka's own compression. A schema registry's serializers put a zero and the
schema's number before the data (Confluent's wire format), and protobuf's also the path of the message.
"""

from __future__ import annotations

import zlib

GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_FRAME = 5


class PayloadError(ValueError):
    """A payload cannot be unpacked; the message is the reason, in the form of a reject."""


def unpacked(data: bytes | memoryview, most: int) -> bytes | memoryview:
    """Return the payload without compression. Raises PayloadError if it is broken or exceeds `most` bytes."""
    head = bytes(data[:4])
    if head.startswith(GZIP):
        return _of_gzip(data, most)
    return _of_zstd(data, most) if head == ZSTD else data


def _of_gzip(data: bytes | memoryview, most: int) -> bytes:
    reader = zlib.decompressobj(wbits=31)
    try:
        plain = reader.decompress(data, most + 1)
    except zlib.error:
        raise PayloadError("binary: broken gzip") from None
    if len(plain) > most:
        raise PayloadError("oversized")
    if not reader.eof:
        raise PayloadError("binary: gzip that ends before its end")
    return plain


def _of_zstd(data: bytes | memoryview, most: int) -> bytes:
    try:
        import zstandard
    except ModuleNotFoundError:
        raise PayloadError("binary: packed with zstd: pip install 'kafka-client-health[binary]'") from None
    reader = zstandard.ZstdDecompressor(max_window_size=1 << 27).decompressobj()
    plain = bytearray()
    try:
        # Decompress in pieces, so that the size limit is checked before much memory is used: a piece can grow only by
        # its own blocks of at most 128 KiB.
        for at in range(0, len(data), 4096):
            plain += reader.decompress(bytes(data[at : at + 4096]))
            if len(plain) > most:
                raise PayloadError("oversized")
    except zstandard.ZstdError:
        raise PayloadError("binary: broken zstd") from None
    if not reader.eof:
        raise PayloadError("binary: zstd that ends before its end")
    return bytes(plain)


def framed(data: bytes | memoryview) -> tuple[int, memoryview] | None:
    """Return the schema's number and the data after the frame; None if the payload has no such frame."""
    if len(data) <= _FRAME or data[0] != 0:
        return None
    view = memoryview(data)
    return int.from_bytes(view[1:_FRAME], "big"), view[_FRAME:]


def without_message_path(data: memoryview) -> memoryview:
    """Return the data after the path that locates a protobuf message in its schema.

    The path is a list of zigzag numbers; the first one is the number of the others. Raises PayloadError if there is no
    such path.
    """
    count, at = _zigzag(data, 0)
    for _ in range(count):
        _, at = _zigzag(data, at)
    return data[at:]


def _zigzag(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    for n in range(at, min(at + 5, len(data))):
        value |= (data[n] & 0x7F) << shift
        if data[n] < 0x80:
            return value >> 1 ^ -(value & 1), n + 1
        shift += 7
    raise PayloadError("binary: framed as protobuf, but without the path of its message")
