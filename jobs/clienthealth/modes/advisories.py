"""Find the known bugs of a client library's version in `advisories.toml`.

A vendor's build (2.6.0.redhat-1, 7.5.1-ccs) contains unknown patches, so it counts as having all fixes of its minor
version.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Annotated, Any

import msgspec

from clienthealth.model.clients import Kind
from clienthealth.model.errors import CatalogueError
from clienthealth.model.tables import converted, table

FILE = Path(__file__).with_suffix(".toml")
#: The numbers of a version, such as (3, 9, 1); infinity for an unknown patch number.
Number = tuple[float, ...]
_RELEASE = re.compile(r"v?(\d{1,4}(?:\.\d{1,6}){1,3})(.{0,80})", re.ASCII)
_PLATFORM = ("-ccs", "-ce")
Release = Annotated[str, msgspec.Meta(pattern=r"^\d+(\.\d+){2,3}$")]


class Known(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A known bug of some versions of a library.

    `bug`     the bug's number in the library's issue tracker, or a name if the bug has no number
    `kinds`   the kinds of client that have the bug; empty: all kinds
    `since`   the first version that is known to have the bug
    `fixed`   the releases that brought the fix, at most one per minor version, in rising order. All versions after the
              last release in this list have the fix, too
    `says`    one sentence about the bug
    `causes`  ids of the modes that the bug causes
    `mimics`  ids of the modes that the bug looks like
    `source`  address of a description of the bug; '' for the bug's page in the issue tracker
    """

    bug: str
    since: Release
    fixed: Annotated[tuple[Release, ...], msgspec.Meta(min_length=1)]
    says: str
    kinds: tuple[Kind, ...] = ()
    causes: tuple[str, ...] = ()
    mimics: tuple[str, ...] = ()
    source: str = ""

    def concerns(self, number: Number, kind: str | None = None) -> bool:
        """Return True if this version of the library has the bug. `kind`: the kind of client, None for any."""
        if number < numbers(self.since) or (kind and self.kinds and kind not in self.kinds):
            return False
        *lines, last = map(numbers, self.fixed)
        return number < last and not any(line[:-1] == number[: len(line) - 1] and line <= number for line in lines)


class Library(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A client library.

    `parts`     the lower-case texts that identify the library: a client's reported name contains one of these
    `tracker`   start of the address of a bug's page; the bug's number completes the address
    `platform`  maps a major version of Confluent Platform to the Kafka release in the first release of this major
                version: 7 to (3, 0), because Confluent Platform 7.0 contains Kafka 3.0
    `known`     the known bugs of the library's versions
    """

    parts: tuple[str, ...]
    tracker: str
    platform: Mapping[str, tuple[int, int]] = {}
    known: tuple[Known, ...] = ()

    def number(self, version: str) -> Number | None:
        """Return a version's numbers; None if unreadable. An unknown patch number is infinity."""
        if (match := _RELEASE.fullmatch(version)) is None:
            return None
        number, vendor = numbers(match[1]), match[2]
        if vendor.startswith(_PLATFORM):
            began = self.platform.get(str(int(number[0])))
            return None if began is None else (float(began[0]), began[1] + number[1], math.inf)
        whole = len(number) > 2
        return number if whole and not vendor else (*(number[:-1] if whole else number), math.inf)


def numbers(release: str) -> Number:
    """Return the numbers of a release: 3.9.1 is (3, 9, 1)."""
    return tuple(map(float, release.split(".")))


@cache
def libraries() -> Mapping[str, Library]:
    """Return all libraries by name. Raises CatalogueError, naming the key, if `advisories.toml` has a mistake."""
    found = {}
    for name, entry in table(FILE).items():
        for known in entry.get("known", ()):
            converted(known, Known, f"modes/{FILE.name}: {name}, {known.get('bug', 'without a number')}")
        found[name] = converted(entry, Library, f"modes/{FILE.name}: {name}")
        bugs = [known.bug for known in found[name].known]
        if repeated := [bug for bug in bugs if bugs.count(bug) > 1]:
            raise CatalogueError(f"modes/{FILE.name}: {name}, {repeated[0]} is listed twice")
    return found


@dataclass(frozen=True)
class Advised:
    """The known bugs of a version.

    `known`       the bugs that cause a failure mode, then the other bugs, each with the address of its description
    `upgrade_to`  the next release without known bugs; '' if there is none, or if this version has no known bug
    """

    known: tuple[tuple[Known, str], ...] = ()
    upgrade_to: str = ""

    @property
    def bugs(self) -> list[str]:
        """The ids of the bugs that cause or resemble a failure mode."""
        return [known.bug for known, _ in self.known if known.causes or known.mimics]

    def as_json(self) -> dict[str, Any]:
        """Return the fields for JSON: `known` (the bugs, each with `source`) and `upgrade_to`."""
        fields = ("bug", "says", "causes", "mimics", "fixed")
        known = [{name: getattr(one, name) for name in fields} | {"source": source} for one, source in self.known]
        return {"known": known, "upgrade_to": self.upgrade_to}


@lru_cache(maxsize=1024)
def advised(name: str | None, version: str | None, kind: str | None = None) -> Advised:
    """Return the known bugs of a library's version for one kind of client (None: any).

    `name`, `version`: as the client reports them. Unknown libraries and versions have no known bugs.
    """
    named = (name or "").lower()
    library = next((one for one in libraries().values() if any(part in named for part in one.parts)), None)
    number = library.number(version or "") if library is not None else None
    if library is None or number is None:
        return Advised()
    known = [one for one in library.known if one.concerns(number, kind)]
    known.sort(key=lambda one: (not one.causes, not one.mimics))
    releases = sorted({release for one in library.known for release in one.fixed}, key=numbers)
    later = (release for release in releases if numbers(release) > number)
    free = (release for release in later if not any(one.concerns(numbers(release), kind) for one in library.known))
    sourced = tuple((one, one.source or library.tracker + one.bug.lstrip("#")) for one in known)
    return Advised(sourced, next(free, "") if known else "")
