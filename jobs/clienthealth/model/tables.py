"""Read the TOML files of this package. Each file is beside the module that uses its tables."""

from __future__ import annotations

import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from clienthealth.model.errors import CatalogueError

T = TypeVar("T")


def table(path: Path) -> dict[str, Any]:
    """Read a TOML file of this package, also from a zip archive (as on a Spark executor).

    Raises CatalogueError if the file cannot be read or is not TOML.
    """
    archive = next((parent for parent in path.parents if parent.is_file()), None)
    file = zipfile.Path(archive, path.relative_to(archive).as_posix()) if archive else path
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise CatalogueError(f"{path}: {error}") from None


def converted(value: Any, kind: type[T], where: str, read: Callable[[type, Any], Any] | None = None) -> T:
    """Convert a value of a TOML file to the type `kind`.

    Raises CatalogueError if the value does not fit the type. The message begins with `where` and names the key. `read`
    converts a value to a type that TOML does not have, such as a pattern.
    """
    try:
        return msgspec.convert(value, kind, dec_hook=read)
    except msgspec.ValidationError as error:
        fault, _, key = str(error).partition(" - at `$")
        key = key.strip(".`")
        raise CatalogueError(f"{where}{f', {key}' if key else ''}: {fault}") from None
