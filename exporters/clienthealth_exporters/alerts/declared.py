"""What an installation declares of itself, in the rules on the monitor: its clusters, shards and topics of logs."""

from __future__ import annotations

import json
import re

from clienthealth.settings import Settings

_MONITOR, _EXPORTER = "kafka_client_health_query_up", "kafka_client_health_exporter_up"
#: In watchdog.yml: topics that may be silent when all is well.
_LOGS = re.compile(r'source_topic!~"[^"]*"')


def declared(text: str, settings: Settings) -> str:
    """The rules of watchdog.yml with what the settings declare; without a declaration as they are.

    A cluster or a shard that is declared is missed until it is back, also where Prometheus has forgotten it; one that
    is not was taken away on purpose.
    """
    clusters, shards = settings.prometheus.expect_clusters, settings.prometheus.expect_shards
    if clusters:
        either = "|".join(re.escape(cluster).replace("\\", "\\\\") for cluster in clusters)
        for metric in (_MONITOR, _EXPORTER):
            text = text.replace(f"last_over_time({metric}[", f'last_over_time({metric}{{cluster=~"{either}"}}[')
        text = _missed(text, "kafka-client-health-monitor", [{"cluster": one} for one in clusters], _MONITOR)
    parts = [{"shard": f"{number + 1}/{shards}"} for number in range(shards)] or [{}]
    wanted = [{"cluster": cluster, **part} for cluster in clusters for part in parts] if clusters else parts
    if any(wanted):
        text = _missed(text, "kafka-client-health", wanted, _EXPORTER)
    if settings.topics.logs != Settings().topics.logs:
        logs = "|".join(re.escape(topic).replace("\\", "\\\\") for topic in settings.topics.logs)
        text = _LOGS.sub(lambda _: f'source_topic!~"{logs}"', text)
    return text


def _missed(text: str, job: str, wanted: list[dict[str, str]], metric: str) -> str:
    last = f'or on ()\n          absent(up{{job="{job}"}} == 1)'
    lines = [
        f"or on ({', '.join(labels)})\n          absent({metric}{{{_matching(labels)}}})\n          "
        for labels in wanted
    ]
    return text.replace(last, f"{''.join(lines)}{last}")


def _matching(labels: dict[str, str]) -> str:
    return ",".join(f"{name}={json.dumps(value)}" for name, value in labels.items())
