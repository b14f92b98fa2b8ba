"""Use our broker plugin's headers to identify a client that pushes metrics (KIP-714).

The client's payload contains no identity that can be trusted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache

from clienthealth.model.metrics import TERMINATING
from clienthealth.model.telemetry import Snapshot
from clienthealth.settings import IdentitySettings

#: Only pushes through our broker plugin have this header.
INSTANCE = "client_instance_id"
HEADERS = (
    *(INSTANCE, "client_address", "principal", "client_software_name", "client_software_version"),
    *("terminating", "broker_time_ms", "broker_id", "push_interval_ms"),
)
_ANONYMOUS = "ANONYMOUS"
_COMMON_NAME = re.compile(r"(?:^|,)\s*CN=((?:[^,\\]|\\.)+)", re.IGNORECASE)
_NUMBERED = re.compile(r"-\d+$")
_DEFAULTS = frozenset({"producer", "consumer", "adminclient", "rdkafka", "kafka-python", "sarama", ""})
_OF_GROUP = re.compile(r"consumer-(.+)-\d+")


def identity_headers(headers: Mapping[str, str], identity: IdentitySettings) -> dict[str, str]:
    """Return the client's identity, from our broker plugin's headers. The keys are names in `decode.HEADERS`.

    A value is '' if unknown. Returns {} if the record is not a push (no header `INSTANCE`).
    """
    if not (instance := headers.get(INSTANCE)):
        return {}
    library, version = software(headers.get("client_software_name", ""), headers.get("client_software_version", ""))
    return {
        "instance": f"{address}:{instance}" if (address := headers.get("client_address")) else instance,
        "host": _named(identity.push_hosts, (address,)) or address if address else "",
        "service": _service(headers.get("principal", ""), headers.get("client_id", ""), address or "", identity),
        "library": library,
        "version": version,
    }


def complete(snapshot: Snapshot, headers: Mapping[str, str]) -> None:
    """Set a pushed snapshot's time, interval and metric `TERMINATING` from our broker plugin's headers.

    The time comes from the broker's clock. The metric `TERMINATING` is 1 if the client is closing, else 0.
    """
    if INSTANCE not in headers:
        return
    if (arrived := headers.get("broker_time_ms", "")).isdecimal():
        snapshot.ts_ms = int(arrived)
    # Only brokers since Kafka 4.2 pass the push interval to our broker plugin.
    if (every := headers.get("push_interval_ms", "")).isdecimal():
        snapshot.interval_ms = int(every)
    snapshot.metrics[TERMINATING] = float(headers.get("terminating") == "true")


def software(name: str, version: str) -> tuple[str, str]:
    """Return (library, version) for the software name and version that a client reports to brokers.

    Bindings of librdkafka report their own names. For a binding, the result is `librdkafka` and librdkafka's version.
    """
    binding, _, of_library = version.rpartition("rdkafka-")
    if binding or "rdkafka" in name or name.startswith("confluent-kafka-"):
        return "librdkafka", of_library
    return "java" if "java" in name else name, version


@lru_cache(maxsize=65_536)
def _service(principal: str, client_id: str, address: str, identity: IdentitySettings) -> str:
    by_source = {
        "table": lambda: _named(identity.push_services, (principal, client_id, address)),
        "principal": lambda: _of_principal(principal),
        "client_id": lambda: _of_client_id(client_id),
    }
    return next((name for source in identity.push_service if (name := by_source[source]())), "")


def _of_principal(principal: str) -> str:
    name = principal.partition(":")[2]
    common = _COMMON_NAME.search(name)
    return common[1] if common else "" if name == _ANONYMOUS else name


def _of_client_id(client_id: str) -> str:
    if group := _OF_GROUP.fullmatch(client_id):
        return group[1]
    name = _NUMBERED.sub("", client_id)
    return "" if name in _DEFAULTS else name


def _named(table: Sequence[str], texts: Sequence[str]) -> str:
    """Return the first NAME in `table` for which GLOB matches one of `texts`; '' if no GLOB matches.

    An entry of `table` has the form `GLOB=NAME`.
    """
    for entry in table:
        glob, _, name = entry.rpartition("=")
        if any(text and fnmatchcase(text, glob) for text in texts):
            return name
    return ""
