"""Define hand-made windows of clients, one module per failure mode."""

from __future__ import annotations

import importlib
import pkgutil

from tests.scenarios._making import Scenario


def scenarios() -> dict[str, tuple[Scenario, ...]]:
    by_mode = {}
    for module in pkgutil.iter_modules(__path__):
        if not module.name.startswith("_"):
            mode = module.name.replace("_", "-")
            by_mode[mode] = importlib.import_module(f"{__name__}.{module.name}").SCENARIOS
    return by_mode
