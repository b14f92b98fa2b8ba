"""Generate documentation from the code: the reference configuration, and marked blocks of hand-written pages.

A page marks a block by `<!-- generated: NAME -->` … `<!-- end -->`. `BLOCKS[NAME]` returns the text of the block.
"""

from __future__ import annotations

import importlib
import re
import typing
from collections.abc import Callable, Iterable, Mapping

from clienthealth.configuration import PREFIX, toml
from clienthealth.model import metric_names
from clienthealth.model.metric_names import FORMERLY, JAVA, LIBRDKAFKA, LIBRDKAFKA_PARTITION, METRICBEAT, SCALA
from clienthealth.model.metrics import CLIENT_METRICS, TOPIC_METRICS
from clienthealth.model.telemetry import Stream
from clienthealth.modes import modes
from clienthealth.ops.cli import commands
from clienthealth.platform import locations
from clienthealth.read.formats import formats
from clienthealth.settings import Settings
from clienthealth.settings.fields import keys
from clienthealth.spark.self_monitoring import SelfMetrics
from deploy.reference import rooms

_FORMATS = "jobs/clienthealth/read/formats"
PAGES = ("README.md", "jobs/README.md", "deploy/operate.md", f"{_FORMATS}/README.md", f"{_FORMATS}/names.md")
#: For each type of metric, the suffix that Prometheus' client library adds to the metric's name.
_SUFFIXES = {"counter": "_total", "info": "_info"}
RULES: Mapping[str, metric_names.Rule] = {
    "MBean attribute (Jolokia, Telegraf, jmxtrans, kafka-python)": metric_names.attribute,
    "KIP-714 (OTLP)": metric_names.kip714,
    "OpenTelemetry Java agent (OTLP)": metric_names.otel_agent,
    "Micrometer (Prometheus)": metric_names.micrometer,
    "JMX exporter (Prometheus)": metric_names.jmx_exporter,
    "JMX exporter since 1.0": metric_names.jmx_exporter_1,
}
BLOCK = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def generate() -> dict[str, str]:
    pages = {page: (locations.checkout() / page).read_text(encoding="utf-8") for page in PAGES}
    return {"deploy/config.reference.toml": configuration(), **{p: filled(text) for p, text in pages.items()}}


def filled(text: str) -> str:
    return BLOCK.sub(lambda block: f"{block[1]}{BLOCKS[block[2]]()}\n{block[3]}", text)


def configuration() -> str:
    """Return every setting with its default, reason and bounds, as TOML."""
    lines = [
        "# Every setting of Kafka Client Health with its default. Generated; do not edit.",
        f"# Each setting can also be set in the environment: {PREFIX}<SECTION>_<KEY>, for instance",
        f"# {PREFIX}KAFKA_BOOTSTRAP_SERVERS=broker-1:9092. An unknown key is an error.",
    ]
    sections = {name: kind for name, kind in typing.get_type_hints(Settings).items() if name != "modes"}
    sections |= {f"modes.{mode.id}": type(mode.thresholds) for mode in modes().values()}
    for name, section in sections.items():
        lines += ["", f"[{name}]"]
        for key in keys(section).values():
            lines.append(f"# {key.reason}{f'. Allowed: {key.range}' * bool(key.range)}")
            lines.append(f"{key.name} = {toml(key.default)}")
    return "\n".join(lines) + "\n"


def _table(head: str, rows: Iterable[str]) -> str:
    return "\n".join([f"| {head} |", f"|{'---|' * (head.count(' | ') + 1)}", *(f"| {row} |" for row in rows)])


def _formats(stream: Stream) -> str:
    rows = []
    for fmt in sorted(formats(stream), key=lambda fmt: fmt.name):
        about = fmt.about or str(importlib.import_module(f"clienthealth.read.formats.{fmt.name}").__doc__)
        rows.append(f"`{fmt.name}` | " + about.splitlines()[0].replace("|", "\\|"))
    return _table(f"format of {stream} | what it is", rows)


def _metric_names_table() -> str:
    header = [
        "Our name",
        "Unit",
        "Of each",
        *RULES,
        "librdkafka statistics",
        "Scala consumer (MBean)",
        "Metricbeat",
    ]
    clients = {name: unit for metrics in CLIENT_METRICS.values() for name, unit in metrics.items()}
    rows = [_names_of(name, unit, "client") for name, unit in clients.items()]
    rows += [_names_of(name, unit, "topic, partition or thread") for name, unit in TOPIC_METRICS.items()]
    return _table(" | ".join(header), (" | ".join(cell or "–" for cell in row) for row in rows))


_OF_TOPICS = ("producer-topic-metrics", "consumer-fetch-manager-metrics")


def _names_of(name: str, unit: str, of_each: str) -> list[str]:
    client = of_each == "client"
    groups = [g for g, names in JAVA.items() if name in names and (g != _OF_TOPICS[0] if client else g in _OF_TOPICS)]
    spelled = (name, *FORMERLY.get(name, ()))
    field, factor = LIBRDKAFKA.get(name, ("", 1)) if client else (LIBRDKAFKA_PARTITION.get(name, ""), 1)
    return [
        f"`{name}`",
        unit,
        of_each,
        *(_codes(rule(group, one) for group in groups for one in spelled) for rule in RULES.values()),
        _codes([field]) + (f" × {factor:g}" if factor != 1 else ""),
        _codes(mbean for mbean, ours in SCALA.items() if ours == name),
        _codes(field for field, ours in METRICBEAT.items() if ours == name and client),
    ]


def _codes(texts: Iterable[str]) -> str:
    return ", ".join(f"`{text}`" for text in dict.fromkeys(texts) if text)


BLOCKS: Mapping[str, Callable[[], str]] = {
    "commands": lambda: _table(
        "command | what it does", (f"`kafka-health {name}` | {stated.help}" for name, stated in commands().items())
    ),
    "modes": lambda: _table(
        "mode | what is wrong | what it costs",
        (f"[`{m.id}`](alerts/runbooks/{m.id}.md) | {m.summary} | {m.impact}" for m in modes().values()),
    ),
    "formats_metrics": lambda: _formats("metrics"),
    "formats_logs": lambda: _formats("logs"),
    "monitor_metrics": lambda: _table(
        "metric | meaning",
        (f"`{m.name}{_SUFFIXES.get(m.type, '')}` | {m.documentation}" for m in SelfMetrics().registry.collect()),
    ),
    "rooms": lambda: _table("package (room) | content | packages that it imports", rooms.rows()),
    "names": _metric_names_table,
}
