"""Write a `health.toml` for tests, benchmarks and chaos runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def write_settings(folder: Path, sections: Mapping[str, Mapping[str, Any]]) -> Path:
    text = "\n".join(
        f"[{section}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items())
        for section, values in sections.items()
    )
    path = folder / "health.toml"
    path.write_text(text, encoding="utf-8")
    return path
