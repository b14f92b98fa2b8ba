"""Storms of log lines, before they are decoded: of many that are alike a few are read, each for those around it.

Alike are lines of one process that differ in digits alone: the Kafka key names it as `service|instance|…`. Where it
does not, they must be the same but for times, because digits tell hosts apart. So the work that one process can cause
is bounded, and its lines are still counted. Lines of thread dumps are read one and all: together they say something.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

#: A batch with fewer lines that are worth decoding is no storm; of lines that are alike so many are read.
STORM, READ = 500, 50
_DIGITS = "[0-9]+"
#: ISO 8601 and what layouts of log lines make of it, epoch milliseconds and longer, and a shipper's offset in its file.
_TIMES = (
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]+)?|\b[0-9]{13,}\b|\"offset\": ?[0-9]+"
    r"|\b[0-9]{2}:[0-9]{2}:[0-9]{2}[.,][0-9]+"
)
_OF_DUMPS = r"\tat |\\tat | tid=0x|java\.lang\.Thread\.State: |- (?:locked|waiting|parking)"
_OF_PROCESS = r"^[^|]*\|[^|]+\|"

Ints = NDArray[np.int64]


def chosen(values: Any, keys: Any, worth: Ints) -> list[tuple[int, Ints]]:
    """The records to decode, of those at `worth`, each with all that it stands for (itself among them).

    `values`, `keys`: columns of binaries.
    """
    alone = [(at, np.array([at])) for at in worth.tolist()]
    if len(worth) < STORM:
        return alone
    alike = _alike(values, keys, worth)
    order = np.argsort(alike, kind="stable")
    begins = np.flatnonzero(np.append(True, alike[order][1:] != alike[order][:-1]))
    samples: list[tuple[int, Ints]] = []
    for begin, end in zip(begins, np.append(begins[1:], len(order)), strict=True):
        repeated = worth[order[begin:end]]
        if len(repeated) <= READ:
            samples += [(at, np.array([at])) for at in repeated.tolist()]
        else:
            samples += [(int(part[len(part) // 2]), part) for part in np.array_split(repeated, READ)]
    return sorted(samples, key=lambda one: one[0])


def _alike(values: Any, keys: Any, worth: Ints) -> Ints:
    """For each of these lines a number that lines which are alike share."""
    import pyarrow as pa
    import pyarrow.compute as pc

    at = pa.array(worth)
    try:
        texts = values.take(at).cast(pa.string())
        subject = pc.fill_null(keys.take(at).cast(pa.string()), "")
    except pa.ArrowInvalid:
        return np.arange(len(worth))
    texts = pc.fill_null(texts, "")
    named = pc.match_substring_regex(subject, _OF_PROCESS)
    shape = pc.if_else(
        named,
        pc.replace_substring_regex(texts, _DIGITS, ""),
        texts if pc.all(named).as_py() else pc.replace_substring_regex(texts, _TIMES, ""),
    )
    # Each line of a dump is like no other.
    own = pa.array(np.arange(len(worth)).astype(str))
    shape = pc.if_else(pc.match_substring_regex(texts, _OF_DUMPS), own, shape)
    whole = pc.binary_join_element_wise(subject, shape, "\0")
    numbers: Ints = whole.dictionary_encode().indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers
