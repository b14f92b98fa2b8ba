"""The monitor itself: a blind monitor must not look healthy.

Limits are those of alerts/watchdog.yml, which is written by hand; a test compares them.
"""

from __future__ import annotations

from collections.abc import Sequence

from clienthealth.configuration.installation import KEPT, listed
from dashboards.look import CRITICAL, WARNING, up_words
from dashboards.page import Page, Section
from dashboards.panel import Panel, Query, chart, number
from dashboards.scope import OF_KEPT, WORST

STALE_SECONDS = 300
BEHIND_SECONDS = 180
REJECTED_RATIO = 0.05
_P = "kafka_client_health"
_LATENCY = f"{_P}_verdict_latency_seconds_bucket{{{OF_KEPT}}}"
_SKEW = f"kafka_client_clock_skew_seconds{{{OF_KEPT}}}"


def page() -> Page:
    """The dashboard."""
    return Page(
        name="monitor",
        title="Kafka clients: monitor health",
        description="Whether the monitor sees: its query, its input, how late it is, what it cannot read.",
        variables=(),
        sections=(
            Section("Now", _strip()),
            Section("Input", _input()),
            Section("Work", _work()),
            Section("Left out", _left_out()),
        ),
    )


def _strip() -> Sequence[Panel]:
    return (
        number(
            1,
            "Monitor",
            "Whether Prometheus reaches the monitor. Down is bad: no verdict is renewed. What to do: read "
            "its log, start it again; it goes on where it stopped. Alerts: KafkaClientHealthMonitorDown, and "
            "KafkaClientHealthRestarting where it ends over and over, KafkaClientHealthNameTaken where there are two.",
            'min(up{job="kafka-client-health-monitor"})',
            "none",
            mappings=up_words(),
            nothing="not scraped",
        ),
        number(
            2,
            "Query",
            "Whether the streaming query runs. Down is bad: no client is judged. What to do: read "
            "the exception in the monitor's log, restart it. Alert: KafkaClientHealthQueryDown.",
            f"min({_P}_query_up{{{OF_KEPT}}})",
            "none",
            mappings=up_words(),
            nothing="monitor is silent",
        ),
        number(
            3,
            "Exporter",
            "Whether the exporter has read its whole topic and reaches Kafka. Down is bad: what is shown is "
            "old or incomplete. What to do: ask its /healthz. Alerts: KafkaClientHealthExporterBlind, and by name "
            "KafkaClientHealthReplicaBlind, KafkaClientHealthTargetDown.",
            f"min(max by ({listed((*KEPT, 'shard'))}) ({_P}_exporter_up{{{OF_KEPT}}}))",
            "none",
            mappings=up_words(),
            nothing="exporter is silent",
        ),
        number(
            4,
            "Age of the newest record",
            "Time since the moment that the newest record of client health speaks of. High is bad: verdicts "
            "may no longer hold. What to do: see whether the input below is late. Alert: "
            "KafkaClientHealthStale.",
            f"time() - max({_P}_exporter_newest_record_timestamp_seconds{{{OF_KEPT}}})",
            "s",
            above={STALE_SECONDS: CRITICAL},
            nothing="exporter is silent",
        ),
        number(
            5,
            "Verdict latency, median",
            "From the onset of a fault to its verdict, over the range that is shown. High is bad: faults "
            "are found late. What to do: see input lag and batch duration. No alert of its own.",
            f"histogram_quantile(0.5, sum by (le) (rate({_LATENCY}[$__range]))) >= 0",
            "s",
            nothing="no fault found",
        ),
        number(
            6,
            "Version",
            "Version of the monitor that runs. Two of them at once mean that a deployment is under way. No alert.",
            f"max by (version) ({_P}_build_info{{{OF_KEPT}}})",
            "none",
            nothing="monitor is silent",
            legend="{{version}}",
        ),
    )


def _input() -> Sequence[Panel]:
    return (
        chart(
            10,
            "Records not yet read",
            "Records that wait in each input topic. Rising is bad: the monitor falls behind. What to do: "
            "see whether batches take longer than the trigger interval; more cores. Alert: "
            "KafkaClientHealthFallingBehind.",
            [Query(f"sum by (source_topic) ({_P}_input_lag_records{{{OF_KEPT}}})", "{{source_topic}}")],
            "short",
        ),
        chart(
            11,
            "Age of the newest event",
            "Time since the newest event that was read from each topic. High is bad: nothing comes, or it "
            "comes late. A topic of logs may be silent when all is well. Alerts: "
            "KafkaClientHealthFallingBehind (first line), KafkaClientHealthInputSilent (second).",
            [
                Query(
                    f"time() - max by (source_topic) ({_P}_newest_event_timestamp_seconds{{{OF_KEPT}}})",
                    "{{source_topic}}",
                )
            ],
            "s",
            above={BEHIND_SECONDS: WARNING, STALE_SECONDS: WARNING},
        ),
        chart(
            12,
            "Records read",
            "Records per second from each input topic. A fall to 0 is bad. What to do: look at what writes "
            "to the topic. Alerts: KafkaClientHealthInputSilent, KafkaClientHealthInputMissing (there is no such "
            "topic), KafkaClientHealthNothingArrived (there was never anything).",
            [
                Query(
                    f"sum by (source_topic) (rate({_P}_records_read_total{{{OF_KEPT}}}[$__rate_interval]))",
                    "{{source_topic}}",
                )
            ],
            "recps",
        ),
        chart(
            13,
            "Share of records rejected",
            "Records that cannot be read, as a share of all. High is bad: their clients are not watched. "
            "What to do: read the header reject_reason on the topic of rejects. Alert: "
            "KafkaClientHealthRejectsRising.",
            [
                Query(
                    f"sum by (source_topic) (rate({_P}_records_rejected_total{{{OF_KEPT}}}[$__rate_interval]))\n/\n"
                    f"(sum by (source_topic) (rate({_P}_records_read_total{{{OF_KEPT}}}[$__rate_interval])) > 0)",
                    "{{source_topic}}",
                )
            ],
            "percentunit",
            above={REJECTED_RATIO: WARNING},
        ),
    )


def _work() -> Sequence[Panel]:
    latency = f"sum by (le) (rate({_LATENCY}[$__rate_interval]))"
    return (
        chart(
            20,
            "Batch duration",
            "How long the last batch took. Longer than the trigger interval for long is bad: "
            "the monitor falls behind. What to do: more cores, fewer clients per monitor. Alert: "
            "KafkaClientHealthFallingBehind.",
            [Query(f"max by (query) ({_P}_batch_duration_seconds{{{OF_KEPT}}})", "{{query}}")],
            "s",
        ),
        chart(
            21,
            "Time since the last batch",
            "High is bad: the query hangs. Without input it still reports every few seconds. What to "
            "do: take a thread dump of the driver. Alert: KafkaClientHealthQueryHung.",
            [Query(f"time() - max by (query) ({_P}_last_batch_timestamp_seconds{{{OF_KEPT}}})", "{{query}}")],
            "s",
        ),
        chart(
            22,
            "Clients in the state",
            "Clients that the query keeps. Rising for days is bad: clients whose names change for ever. What "
            "to do: give clients stable ids; more memory. Alert beyond a limit: KafkaClientHealthLimitReached.",
            [Query(f"max by (query) ({_P}_state_rows{{{OF_KEPT}}})", "{{query}}")],
            "short",
        ),
        chart(
            23,
            "Verdict latency",
            "From the onset of a fault to its verdict; shown while faults are found. High is bad: a minute "
            "is usual. What to do: see input lag and batch duration. No alert of its own.",
            [
                Query(f"histogram_quantile(0.5, {latency}) >= 0", "median"),
                Query(f"histogram_quantile(0.95, {latency}) >= 0", "95 %"),
            ],
            "s",
        ),
        chart(
            24,
            "Changes of verdicts",
            "Incidents opened, escalated, eased, closed and withdrawn. Many withdrawn ones, or opening and "
            "closing in turn, are bad: a threshold is too tight. What to do: read the mode's runbook on "
            "false alarms. No alert.",
            [
                Query(
                    f"sum by (change) (increase({_P}_incident_changes_total{{{OF_KEPT}}}[$__rate_interval]))",
                    "{{change}}",
                )
            ],
            "none",
            width=24,
        ),
    )


def _left_out() -> Sequence[Panel]:
    return (
        chart(
            30,
            "Records that came too late",
            "Readings and events per second that came after their windows were closed and were left out. Any "
            "that lasts is bad: a clock or a collector is far behind. What to do: look at the clocks of the "
            "clients. Alert: KafkaClientHealthLateRecords.",
            [Query(f"sum by (query) (rate({_P}_late_records_total{{{OF_KEPT}}}[$__rate_interval]))", "{{query}}")],
            "recps",
        ),
        chart(
            31,
            "Records rejected, by reason",
            "Records per second that cannot be read, by reason. Any is bad. What to do: read the topic of "
            "rejects; the reason says what is wrong. Alerts: KafkaClientHealthRejectsRising, "
            "KafkaClientHealthRecordSkipped (fatal), KafkaClientHealthJudgementFailed (step-failed).",
            [
                Query(
                    f"sum by (reason) (rate({_P}_records_rejected_total{{{OF_KEPT}}}[$__rate_interval]))", "{{reason}}"
                )
            ],
            "recps",
        ),
        chart(
            32,
            "Series left out",
            "Series that the exporter left out because their metric has too many. Any is bad: some clients "
            "are missing. What to do: raise max_series_per_metric or run an exporter per cluster. Alert: "
            "KafkaClientHealthSeriesDropped.",
            [
                Query(
                    f"sum by (metric) (increase({_P}_series_dropped_total{{{OF_KEPT}}}[$__rate_interval]))",
                    "{{metric}}",
                )
            ],
            "short",
        ),
        chart(
            33,
            "Health records that the exporter cannot read",
            "Any is bad: something else writes to the topic, or versions differ. What to do: compare the "
            "versions of monitor and exporter. Alert: KafkaClientHealthDecodeErrors.",
            [Query(f"sum(increase({_P}_exporter_decode_errors_total{{{OF_KEPT}}}[$__rate_interval]))", "records")],
            "short",
        ),
        chart(
            34,
            "Left out by a limit",
            "Readings and events per second that were left out because a limit of [monitor] is reached. Any that lasts "
            "is bad: what is beyond is not watched. What to do: find out who sends so much, or raise the limit. Alert: "
            "KafkaClientHealthLimitReached.",
            [Query(f"sum by (limit) (rate({_P}_left_out_total{{{OF_KEPT}}}[$__rate_interval]))", "{{limit}}")],
            "short",
        ),
        chart(
            35,
            "Input that was gone before it was read",
            "Records that retention deleted, or partitions made anew, before the monitor came to them. Any is bad: "
            "their clients are unknown for that time. What to do: raise retention.ms of the topic. Alert: "
            "KafkaClientHealthInputLost.",
            [
                Query(
                    f"sum by (source_topic) (increase({_P}_lost_records_total{{{OF_KEPT}}}[$__rate_interval]))",
                    "{{source_topic}}",
                ),
                Query(
                    f"sum by (source_topic) (increase({_P}_recreated_partitions_total{{{OF_KEPT}}}[$__rate_interval]))",
                    "{{source_topic}}: partitions made anew",
                ),
            ],
            "short",
        ),
        chart(
            36,
            "Clocks that are wrong",
            "By how much clients' own time differs from that of others, where it is more than a minute. It harms "
            "nobody else, but what is of the future is left out. What to do: mend the machine's time service. Alert: "
            "KafkaClientClockWrong.",
            [
                Query(
                    f"topk({WORST}, max by (service, instance, client_id) ({_SKEW}))",
                    "{{service}} {{instance}} {{client_id}}",
                )
            ],
            "s",
            width=24,
        ),
    )
