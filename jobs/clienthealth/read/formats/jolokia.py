"""Jolokia's response to a read of MBeans, sent by a script. The response is an object, or an array for a bulk read.

The response names no process, so the record's headers or key must name the process.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from clienthealth.model.samples import Samples, unusable
from clienthealth.model.telemetry import Identity, Snapshot
from clienthealth.model.values import epoch, mapping, measurement
from clienthealth.read.formats import Format, Record
from clienthealth.read.mbeans import read

#: Matches an MBean's name. A request may name several MBeans by a pattern. The `value` of the response then maps each
#: MBean's name to the MBean's attributes.
MBEAN = re.compile(r"[^=]+:.*=")


def _recognise(record: Record) -> bool:
    document = record.document
    if type(document) is list:
        return any(
            type(one) is dict and type(one.get("request")) is dict and _status(one) is not None for one in document
        )
    return type(document) is dict and "request" in document and ("status" in document or _status(document) is not None)


def _decode(record: Record) -> list[Snapshot]:
    elements = record.document if type(record.document) is list else [record.document]
    times = [time for one in elements if (time := epoch(measurement(mapping(one).get("timestamp"))))]
    process = Samples(max(times, default=None), Identity(library="java"))
    broken = 0
    for one in elements:
        status, request = _status(one), mapping(one).get("request")
        if status is None or (status == 200 and type(request) is not dict):
            broken += 1
        elif status == 200 and one.get("value") is not None:
            _read(process, mapping(request), one["value"])
    return process.snapshots() + unusable(broken)


def _status(element: Any) -> float | None:
    """Return an element's status, or 200 if the element has a value but no status; None if the element is malformed."""
    fields = mapping(element)
    answers = "value" in fields and "mbean" in mapping(fields.get("request"))
    status = fields.get("status", 200 if answers else None)
    return status if type(status) in (int, float) else None


def _read(process: Samples, request: Mapping[str, Any], value: Any) -> None:
    if type(value) is dict and any(map(MBEAN.match, value)):
        for name, attributes in value.items():
            read(process, name, mapping(attributes))
        return
    mbean, attribute = request.get("mbean"), request.get("attribute")
    if type(mbean) is str and type(value) is dict:
        read(process, mbean, value)
    elif type(mbean) is str and type(attribute) is str:
        read(process, mbean, {attribute: value})


FORMAT = Format("jolokia", "metrics", 40, _recognise, _decode)
