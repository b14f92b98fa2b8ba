"""Records of many clients at many moments from one sample: encoded once, only what varies is filled in.

A record costs two to four microseconds, so that a generator of 10,000 a second leaves the cores to what is measured.
In a document the text `<<name>>` stands for a number within a text, and the text `<<<name>>>` for a number itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

#: What varies, by name; bytes, because it is filled into bytes.
Values = Mapping[bytes, int]

INTERVAL_MS = 10_000
SERVICES = 200
BUFFER_BYTES = 33_554_432


def filled_in(text: str) -> bytes:
    """The text with its marks as places that `bytes % values` fills."""
    text = re.sub(r'"<<<(\w+)>>>"', r"%(\1)d", text.replace("%", "%%"))
    return re.sub(r"<<(\w+)>>", r"%(\1)d", text).encode()


class Pattern(Protocol):
    """What makes records of what varies. `clients`: how many clients one record speaks of."""

    @property
    def clients(self) -> int: ...

    def record(self, values: Values) -> tuple[bytes, bytes]:
        """Key and value of one record."""


@dataclass(frozen=True)
class Template:
    """How the records of one format look."""

    value: bytes
    key: bytes
    clients: int = 1

    @classmethod
    def of(cls, document: Any, key: str = "", clients: int = 1) -> Template:
        """The template of a JSON document with marks, or of a text."""
        text = document if isinstance(document, str) else json.dumps(document)
        return cls(filled_in(text), filled_in(key), clients)

    def record(self, values: Values) -> tuple[bytes, bytes]:
        """Key and value of one record."""
        return self.key % values, self.value % values


def values(client: int, reading: int, ts_ms: int) -> dict[bytes, int]:
    """What a healthy client says at its n-th reading: totals that grow, a buffer that is empty."""
    return {
        b"client": client,
        b"service": client % SERVICES,
        b"ts_ms": ts_ms,
        b"ts_s": ts_ms // 1000,
        b"ts_ns": ts_ms * 1_000_000,
        b"reading": reading,
        b"selects": 1000 + 137 * reading,
        b"sent": 3000 * reading,
        b"io_ns": 200_000_000 * reading,
        b"wait_ns": 9_700_000_000 * reading,
        b"available": BUFFER_BYTES,
        b"waiting": 0,
    }
