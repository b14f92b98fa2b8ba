"""Find the owner of a service (team, tier, pager, SLO target) in the files that `[owners] files` lists.

The files may be our own TOML (`[[owner]]`), Backstage's `catalog-info.yaml`, or CODEOWNERS. The first entry that
matches a service determines its owner. In a CODEOWNERS file, the last matching line determines the owner.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import chain, repeat
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

import msgspec

from clienthealth.model.errors import DependencyError, SettingsError
from clienthealth.platform.locations import written

OWNER_LABELS = ("team", "tier", "pager")
#: Maximum number of cached names. A limit is needed, because an application may use a new group name at every start.
_REMEMBERED = 50_000
#: Team, tier and pager become values of alerts' labels, so each must be a single line.
_Word = Annotated[str, msgspec.Meta(max_length=100, pattern=r"^[^\x00-\x1f\x7f]*$")]
_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]+$")]


@dataclass(frozen=True)
class Owner:
    """The people to call for a service.

    `tier`: importance of the service. `pager`: the team's id in PagerDuty or Opsgenie. `tier` and `pager` are '' if
    unknown. `slo_target`: minimum share of healthy client-minutes; if None, the setting `[review] slo_target` applies.
    """

    team: str
    tier: str = ""
    pager: str = ""
    slo_target: float | None = None

    @property
    def labels(self) -> tuple[str, str, str]:
        """Return the values of the labels team, tier and pager."""
        return self.team, self.tier, self.pager


@dataclass(frozen=True)
class Row:
    """An entry in a file of owners: the owner of all services and groups that match its globs.

    `owner`: None if the entry names no owner. `place`: file and line of the entry.
    """

    owner: Owner | None
    services: tuple[str, ...]
    groups: tuple[str, ...]
    place: str


class _OwnerTable(msgspec.Struct, forbid_unknown_fields=True):
    team: _Name
    services: tuple[_Name, ...] = ()
    groups: tuple[_Name, ...] = ()
    tier: _Word | int = ""
    pager: _Word = ""
    slo_target: Annotated[float, msgspec.Meta(ge=0, le=0.999_999)] | None = None


class Owners:
    """The rows of all files of owners, in order. The first row that matches a service or group determines the owner."""

    def __init__(self, rows: Sequence[Row] = ()) -> None:
        self.rows = rows
        self._of = lru_cache(_REMEMBERED)(self._first)

    def owner_of(self, service: str) -> Owner | None:
        """Return the owner in the first row that matches a service; None if no row matches or the row has no owner."""
        return self._of("services", service)

    def of_group(self, group: str) -> Owner | None:
        """Return the owner of a consumer group; None if no row matches."""
        return self._of("groups", group)

    def teams(self) -> list[Owner]:
        """Return every owner once, in the order of the rows."""
        return list(dict.fromkeys(row.owner for row in self.rows if row.owner))

    def _first(self, kind: str, name: str) -> Owner | None:
        return next((row.owner for row in self.rows if any(fnmatchcase(name, g) for g in getattr(row, kind))), None)


def read_owners(files: Sequence[str]) -> Owners:
    """Read the owners from `files`.

    Raises SettingsError if a file is wrong; the message names the file and, if known, the line. Raises DependencyError
    for a YAML file if PyYAML is not installed.
    """
    rows: list[Row] = []
    for file in files:
        name, text = Path(file).name, written(file)
        if name.endswith(".toml"):
            rows += _toml(file, text)
        elif name.endswith((".yaml", ".yml")):
            rows += _backstage(file, text)
        elif name == "CODEOWNERS":
            rows += [*_codeowners(file, text)][::-1]
        else:
            raise SettingsError(f"{file}: owners are read from *.toml, from Backstage's *.yaml and from CODEOWNERS")
    return Owners(rows)


def _toml(file: str, text: str) -> Iterator[Row]:
    lines = text.splitlines()
    headings = [number for number, line in enumerate(lines, 1) if re.match(r"\s*\[\[\s*owner\s*\]\]", line)]
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        at = re.search(r"\(at (?:(line \d+)|end of document)", str(error))
        where = "" if at is None else f", {at[1] or f'line {len(lines)}'}"
        raise SettingsError(f"{file}{where}: not valid TOML") from None
    tables = document.pop("owner", [])
    if document or not isinstance(tables, list):
        raise SettingsError(f"{file}: '{next(iter(document), 'owner')}' is not valid: only [[owner]] tables may occur")
    for number, table in zip(chain(headings, repeat(1)), tables, strict=False):
        try:
            row = msgspec.convert(table, _OwnerTable)
        except msgspec.ValidationError as error:
            key, why = _plain(str(error))
            of_key = (at for at, line in enumerate(lines, 1) if at >= number and re.match(rf"\s*{key}\s*=", line))
            raise SettingsError(f"{file}, line {next(of_key, number) if key else number}: {why}") from None
        owner = Owner(row.team, str(row.tier), row.pager, row.slo_target)
        yield Row(owner, row.services, row.groups, f"{file}, line {number}")


def _plain(error: str) -> tuple[str, str]:
    """Return (key, reason) from msgspec's message; the key '' means the whole table."""
    why, _, path = error.partition(" - at `$.")
    key = re.split(r"\W", path)[0]
    if unknown := re.search(r"unknown field `(.*)`", why):
        return "", f"[[owner]] has no key '{unknown[1]}'; known keys: {', '.join(_OwnerTable.__struct_fields__)}"
    if missing := re.search(r"required field `(.*)`", why):
        return "", f"[[owner]] lacks {missing[1]}"
    return key, f"{key or 'owner'}: {why[0].lower()}{why[1:].replace('`', '')}"


def _backstage(file: str, text: str) -> Iterator[Row]:
    """Yield one `Row` for each Component in a Backstage catalogue. The team is `spec.owner` without kind and namespace.

    https://backstage.io/docs/features/software-catalog/descriptor-format
    """
    try:
        import yaml
    except ImportError:
        raise DependencyError(f"{file}: needs PyYAML: pip install 'kafka-client-health[exporters]'") from None
    loader = yaml.SafeLoader(text)
    try:
        while loader.check_node() and (node := loader.get_node()):
            place = f"{file}, line {node.start_mark.line + 1}"
            entity = _mapping(loader.construct_document(node))
            if entity.get("kind") != "Component":
                continue
            metadata, spec = _mapping(entity.get("metadata")), _mapping(entity.get("spec"))
            name, owner = metadata.get("name"), spec.get("owner")
            if not isinstance(name, str) or not isinstance(owner, str) or not owner:
                raise SettingsError(f"{place}: a Component must have metadata.name and spec.owner")
            annotations, labels = _mapping(metadata.get("annotations")), _mapping(metadata.get("labels"))
            pagers = (annotations.get(key) for key in ("pagerduty.com/service-id", "opsgenie.com/team"))
            pager = next((str(pager) for pager in pagers if pager), "")
            yield Row(Owner(re.split("[:/]", owner)[-1], str(labels.get("tier") or ""), pager), (name,), (), place)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        raise SettingsError(f"{file}{where}: not valid YAML") from None
    finally:
        loader.dispose()


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _codeowners(file: str, text: str) -> Iterator[Row]:
    """Yield a `Row` for each line of a CODEOWNERS file. The row's glob is the last part of the path in the line."""
    for number, line in enumerate(text.splitlines(), 1):
        path, *owners = line.partition("#")[0].split()[:2] or [""]
        if not path:
            continue
        if owners and "@" not in owners[0]:
            raise SettingsError(
                f"{file}, line {number}: '{owners[0]}' is not an owner (@team, @organisation/team or a mail address)"
            )
        service = PurePosixPath(re.sub(r"(/\*{1,2})?/*$", "", path) or "*").name
        owner = Owner(owners[0].removeprefix("@").rpartition("/")[2]) if owners else None
        yield Row(owner, (service,), (), f"{file}, line {number}")
