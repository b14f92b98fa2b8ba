"""Make records of many clients at many times from one sample."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

Values = Mapping[bytes, int]

INTERVAL_MS = 10_000
SERVICES = 200
BUFFER_BYTES = 33_554_432


def filled_in(text: str) -> bytes:
    """Replace the placeholders `"<<<name>>>"` (a whole JSON string) and `<<name>>` (inside a string) by `%(name)d`."""
    text = re.sub(r'"<<<(\w+)>>>"', r"%(\1)d", text.replace("%", "%%"))
    return re.sub(r"<<(\w+)>>", r"%(\1)d", text).encode()


class Pattern(Protocol):
    @property
    def clients(self) -> int: ...

    def record(self, values: Values) -> tuple[bytes, bytes]: ...


@dataclass(frozen=True)
class Template:
    value: bytes
    key: bytes
    clients: int = 1

    @classmethod
    def of(cls, document: Any, key: str = "", clients: int = 1) -> Template:
        text = document if isinstance(document, str) else json.dumps(document)
        return cls(filled_in(text), filled_in(key), clients)

    def record(self, values: Values) -> tuple[bytes, bytes]:
        return self.key % values, self.value % values


def values(client: int, reading: int, ts_ms: int) -> dict[bytes, int]:
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
