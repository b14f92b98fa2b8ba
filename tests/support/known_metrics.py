"""List the metrics that dashboards and rules may use, with their labels."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from clienthealth.configuration.installation import KEPT
from clienthealth.spark.self_monitoring import SelfMetrics
from clienthealth_exporters.prometheus.series import ALL_FAMILIES
from tests.support.alert_rules import recordings
from tests.support.promql import surviving

SUFFIXES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "counter": {"_total": ()},
    "gauge": {"": ()},
    "histogram": {"_bucket": ("le",), "_count": (), "_sum": ()},
    "info": {"_info": ("version",)},
}

_ALL = (*KEPT, "shard")


@cache
def known_labels() -> Mapping[str, tuple[str, ...]]:
    labels = {family.name: (*_ALL, *family.labels) for family in ALL_FAMILIES}
    own = SelfMetrics()
    for metric in (*own.gauges.values(), *own.counters.values(), own.latency):
        for family in metric.collect():
            for suffix, more in SUFFIXES[family.type].items():
                labels[f"{family.name}{suffix}"] = (*_ALL, *metric._labelnames, *more)
    (info,) = (family for family in own.registry.collect() if family.type == "info")
    labels[f"{info.name}_info"] = (*_ALL, *SUFFIXES["info"]["_info"])
    labels["up"] = KEPT
    labels["ALERTS"] = (*KEPT, "alertname", "alertstate", "severity", "service", "mode")
    for name, expr in recordings().items():
        labels[name] = tuple(surviving(expr, labels))
    return labels


@cache
def counters() -> frozenset[str]:
    names = {family.name for family in ALL_FAMILIES if family.kind == "counter"}
    rising = ("_total", "_bucket", "_count", "_sum")
    return frozenset(names | {name for name in known_labels() if name.endswith(rising)})
