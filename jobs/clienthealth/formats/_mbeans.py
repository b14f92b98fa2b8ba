"""MBeans of Kafka clients → samples. What their names mean stands in `mbeans`, which the JVM exporter uses, too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clienthealth.formats._samples import Samples
from clienthealth.mbeans import VERSIONS, MBean, parts
from clienthealth.model.values import number, text


def add(process: Samples, mbean: MBean, name: str | None, value: float | None) -> None:
    """Give the process a sample of an MBean's attribute. `name`: ours."""
    process.add(mbean.client_id, mbean.kind, name, value, mbean.topic, mbean.partition, mbean.thread, mbean.node)


def read(process: Samples, name: str, attributes: Mapping[str, Any]) -> None:
    """Give the process the samples of an MBean by its name and attributes. An MBean of no client's has none."""
    mbean = parts(name)
    if mbean.kind is None:
        _read_version(process, mbean, attributes)
        return
    if attributes:
        add(process, mbean, None, None)
    for attribute, value in attributes.items():
        if (ours := mbean.names.get(attribute)) is not None:
            add(process, mbean, ours, number(value))


def _read_version(process: Samples, mbean: MBean, attributes: Mapping[str, Any]) -> None:
    for attribute, value in attributes.items():
        if f"{mbean.path}/{attribute}" in VERSIONS and (version := text(value)):
            process.saw_version(version)
