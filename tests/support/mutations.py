"""Damage bytes or JSON values of samples at random."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Sequence
from typing import Any

ODD: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    -1001,
    7,
    1e308,
    2**70,
    -(2**63),
    float("nan"),
    float("-inf"),
    "",
    "x",
    "NaN",
    "12",
    "{",
    "\x00",
    "ä€\U0001f600",
    [],
    [None],
    {},
    {"a": {"b": [1]}},
)
NONSENSE = (b"{", b"}", b'"', b"[", b"]", b",", b":", b"null", b"1e999", b"-1", b"\\u0000", b"\x01", b"\xff", b"\n")


def mutated(dice: random.Random, samples: Sequence[bytes]) -> bytes:
    value = dice.choice(samples)
    if value[:1] in b"{[" and dice.random() < 0.6:
        value = json.dumps(altered(dice, json.loads(value))).encode()
    return value if dice.random() < 0.5 else damaged(dice, value)


def damaged(dice: random.Random, value: bytes) -> bytes:
    data = bytearray(value)
    for _ in range(dice.randint(1, 3)):
        at = dice.randrange(len(data) + 1)
        to = min(at + dice.randint(0, 40), len(data))
        kind = dice.randrange(5)
        if kind == 4:
            del data[at:]
        else:
            data[at:to] = (b"", bytes(data[at:to] * 2), dice.randbytes(8), dice.choice(NONSENSE))[kind]
    return bytes(data)


def altered(dice: random.Random, document: Any) -> Any:
    for _ in range(dice.randint(1, 4)):
        places = list(_places(document))
        if not places:
            return copy.deepcopy(dice.choice(ODD))
        holder, key = dice.choice(places)
        value = holder[key]
        match dice.randrange(6):
            case 0:
                holder[key] = copy.deepcopy(dice.choice(ODD))
            case 1:
                del holder[key]
            case 2:
                holder[key] = [value]
            case 3:
                holder[key] = {"x": value}
            case 4:
                holder[key] = json.dumps(value)
            case _ if isinstance(holder, list):
                holder += [value] * dice.randint(1, 20)
            case _:
                name = dice.choice(list(holder))
                holder[name] = holder.pop(key)
    return document


def _places(document: Any) -> Any:
    if isinstance(document, dict | list):
        for key, value in document.items() if isinstance(document, dict) else enumerate(document):
            yield document, key
            yield from _places(value)
