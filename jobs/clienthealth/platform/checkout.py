"""Parts of the repository that are used from a checkout and not installed: dashboards, alerts, the demo."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

from clienthealth.model.errors import DependencyError


def root() -> Path:
    """The checkout that this package is used from. Raises DependencyError where it is installed without one."""
    folder = Path(__file__).resolve().parents[3]
    if not (folder / "pyproject.toml").is_file():
        raise DependencyError(
            "this command works in a checkout of the repository only: git clone it and run 'make setup'"
        )
    return folder


def load(module: str) -> ModuleType:
    """Import a module of the checkout by its dotted name from the repository's root."""
    folder = str(root())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return importlib.import_module(module)
