"""Alert rules cover the clusters, shards and log topics that the settings declare."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from clienthealth.settings import PrometheusSettings, Settings, TopicSettings
from clienthealth_exporters.alerts.build import rules

CASE = """
rule_files: [watchdog.yml]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {series: 'kafka_client_health_query_up{cluster="eu",query="monitor",instance="m"}', values: '1x10'}
      - {series: 'up{job="kafka-client-health-monitor",instance="m"}', values: '1x10'}
      - {series: 'kafka_client_health_exporter_up{cluster="eu",shard="1/2"}', values: '1x10'}
      - {series: 'up{job="kafka-client-health",instance="e"}', values: '1x10'}
    promql_expr_test:
      - expr: count by (alertname, cluster, shard) (ALERTS{alertstate="firing",severity="critical"})
        eval_time: 5m
        exp_samples:
          - {labels: '{alertname="KafkaClientHealthMonitorDown",cluster="us"}', value: 1}
          - {labels: '{alertname="KafkaClientHealthExporterDown",cluster="eu",shard="2/2"}', value: 1}
          - {labels: '{alertname="KafkaClientHealthExporterDown",cluster="us",shard="1/2"}', value: 1}
          - {labels: '{alertname="KafkaClientHealthExporterDown",cluster="us",shard="2/2"}', value: 1}
"""


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_what_is_declared_is_missed_though_it_was_never_there(tmp_path: Path) -> None:
    settings = replace(Settings(), prometheus=PrometheusSettings(expect_clusters=("eu", "us"), expect_shards=2))
    (tmp_path / "watchdog.yml").write_text(rules(settings)["watchdog.yml"], "utf-8")
    (tmp_path / "case.yml").write_text(CASE, "utf-8")
    command = ["promtool", "test", "rules", str(tmp_path / "case.yml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_topics_of_logs_are_those_of_the_settings() -> None:
    text = rules(replace(Settings(), topics=TopicSettings(logs=("app.lines",))))["watchdog.yml"]
    assert text.count(r'source_topic!~"app\\.lines"') == 2
