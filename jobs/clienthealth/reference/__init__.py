"""What the documentation restates: the reference configuration and the generated blocks of hand-written pages.

A page says `<!-- generated: NAME -->` … `<!-- end -->`; what is between is replaced by the block of that name.
"""

from __future__ import annotations

import dataclasses
import importlib
import re
import typing
from collections.abc import Callable, Mapping

from clienthealth.cli import commands
from clienthealth.configuration import PREFIX
from clienthealth.configuration.text import toml
from clienthealth.formats import formats
from clienthealth.model import metric_names
from clienthealth.model.telemetry import Stream
from clienthealth.modes import modes
from clienthealth.platform import checkout
from clienthealth.reference import rooms
from clienthealth.self_monitoring.metrics import SelfMetrics
from clienthealth.settings import Settings

PAGES = ("README.md", "jobs/README.md", "deploy/README.md", "jobs/clienthealth/formats/README.md")
BLOCK = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def generate() -> dict[str, str]:
    """The reference configuration, and each page with its blocks filled in."""
    pages = {page: (checkout.root() / page).read_text(encoding="utf-8") for page in PAGES}
    return {"deploy/config.reference.toml": configuration(), **{p: filled(text) for p, text in pages.items()}}


def filled(text: str) -> str:
    """A page with its generated blocks made anew."""
    return BLOCK.sub(lambda found: f"{found[1]}{BLOCKS[found[2]]()}\n{found[3]}", text)


def configuration() -> str:
    """Every setting with its default and reason, as TOML."""
    lines = [
        "# Every setting of Kafka Client Health with its default. Generated from settings.py; do not edit.",
        f"# Each can be set in the environment too: {PREFIX}<SECTION>_<KEY>, for instance",
        f"# {PREFIX}KAFKA_BOOTSTRAP_SERVERS=broker-1:9092. A key that is not known is an error.",
    ]
    kinds = typing.get_type_hints(Settings)
    for section in dataclasses.fields(Settings):
        if section.name == "modes":
            continue
        lines += ["", f"[{section.name}]"]
        built = kinds[section.name]()
        for key in dataclasses.fields(built):
            default = getattr(built, key.name)
            lines.append(f"# {key.metadata['reason']}")
            lines.append(f"{key.name} = {toml(default)}")
    for mode in modes().values():
        lines += ["", f"[modes.{mode.id}]"]
        for limit in dataclasses.fields(mode.thresholds):
            lines.append(f"# {limit.metadata['reason']}")
            lines.append(f"{limit.name} = {toml(getattr(mode.thresholds, limit.name))}")
    return "\n".join(lines) + "\n"


def _commands() -> str:
    rows = [f"| `kafka-health {name}` | {text} |" for name, text in commands().items()]
    return "\n".join(["| command | what it does |", "|---|---|", *rows])


def _modes() -> str:
    rows = [f"| [`{m.id}`](alerts/runbooks/{m.id}.md) | {m.summary} | {m.impact} |" for m in modes().values()]
    return "\n".join(["| mode | what is wrong | what it costs |", "|---|---|---|", *rows])


def _monitor_metrics() -> str:
    suffixes = {"counter": "_total", "info": "_info"}
    rows = [f"| `{m.name}{suffixes.get(m.type, '')}` | {m.documentation} |" for m in SelfMetrics().registry.collect()]
    return "\n".join(["| metric | meaning |", "|---|---|", *rows])


def _formats(stream: Stream) -> str:
    rows = []
    for name in sorted(fmt.name for fmt in formats(stream)):
        about = str(importlib.import_module(f"clienthealth.formats.{name}").__doc__).splitlines()[0]
        rows.append(f"| `{name}` | " + about.replace("|", "\\|") + " |")
    return "\n".join([f"| {stream} | what it is |", "|---|---|", *rows])


BLOCKS: Mapping[str, Callable[[], str]] = {
    "commands": _commands,
    "modes": _modes,
    "formats_metrics": lambda: _formats("metrics"),
    "formats_logs": lambda: _formats("logs"),
    "monitor_metrics": _monitor_metrics,
    "rooms": rooms.table,
    "names": lambda: metric_names.table().rstrip(),
}
