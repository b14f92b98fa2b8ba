"""The dashboard "monitor health"."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from clienthealth.configuration.installation import KEPT, listed
from dashboards.look import CRITICAL, GOOD, WARNING, up_words, words
from dashboards.page import Page, Section
from dashboards.panel import AGE, CLOCK, NONE, Panel, Query, chart, number
from dashboards.scope import BY_CLIENT, LEGEND, NAMED_KEPT, OF_KEPT, WORST, worst

STALE_SECONDS = 300
BEHIND_SECONDS = 180
REJECTED_RATIO = 0.05
_P = "kafka_client_health"
_LATENCY = f"{_P}_verdict_latency_seconds_bucket{{{OF_KEPT}}}"
_SKEW = f"kafka_client_clock_skew_seconds{{{OF_KEPT}}}"


def _each(
    label: str,
    measured: Callable[[str], str],
    legend: str = "",
    most: int = WORST,
) -> Query:
    by = listed((*KEPT, label)) if label else listed(KEPT)
    return Query(worst(measured(by), by, most), f"{legend or f'{{{{{label}}}}}'} {NAMED_KEPT}")


def _rate(by: str, name: str, function: str = "rate") -> str:
    return f"sum by ({by}) ({function}({_P}_{name}{{{OF_KEPT}}}[$__rate_interval]))"


def _age(by: str, name: str) -> str:
    return f"time() - max by ({by}) ({_P}_{name}{{{OF_KEPT}}})"


def _latency(by: str, share: float) -> str:
    return f"histogram_quantile({share}, sum by ({by}, le) (rate({_LATENCY}[$__rate_interval]))) >= 0"


def age_of_newest() -> str:
    """Return a query for the age of the newest record (s); with several installations, for the largest age.

    Data of groups counts only if no client has data, as in the alert KafkaClientHealthStale.
    """
    newest, by = f"{_P}_exporter_newest_record_timestamp_seconds", listed(KEPT)
    of_clients = f'max by ({by}) ({newest}{{of!="groups", {OF_KEPT}}})'
    return f"max(time() - (\n{of_clients}\nor\nmax by ({by}) ({newest}{{{OF_KEPT}}})\n))"


def page() -> Page:
    return Page(
        name="monitor",
        title="Kafka clients: monitor health",
        description="Whether the monitor works: its query, its input, its delay, and records that it cannot read.",
        variables=(),
        sections=(
            Section("Now", _strip()),
            Section("Input", _input()),
            Section("Work", _work()),
            Section("Left out", _left_out()),
        ),
    )


def _state() -> str:
    """Return a query for the monitor's worst problem, as its number in _SENTENCES; 0 means no problem."""
    reached = 'min(up{job="kafka-client-health-monitor"})'
    query = f"min({_P}_query_up{{{OF_KEPT}}})"
    exporter = f"min(max by ({listed((*KEPT, 'shard'))}) ({_P}_exporter_up{{{OF_KEPT}}}))"
    named = 'alertname=~"KafkaClientHealth.+", alertname!="KafkaClientHealthWatchdog"'
    alerts = f'count(ALERTS{{alertstate="firing", {named}, {OF_KEPT}}})'
    wrong = (f"{reached} == 0", f"{query} == 0", f"{exporter} == 0", f"{age_of_newest()} > {STALE_SECONDS}", alerts)
    states = [f"(vector({len(wrong) - at}) and on () ({one}))" for at, one in enumerate(wrong)]
    well = f"(vector(0) and on () ({reached} == 1) and on () ({query} == 1) and on () ({exporter} == 1))"
    return "\nor\n".join([*states, well])


_SENTENCES = {
    5: ("No client is judged: Prometheus does not reach the monitor.", CRITICAL),
    4: ("No client is judged: the monitor runs, but its query has ended.", CRITICAL),
    3: ("These pages are old or incomplete: the exporter cannot reach Kafka.", CRITICAL),
    2: ("These pages are old: there was no new verdict for five minutes.", CRITICAL),
    1: ("The monitor works, but one of its own alerts fires: see the panels below.", WARNING),
    0: ("The monitor works: clients are judged, and these pages are up to date.", GOOD),
}


def _strip() -> Sequence[Panel]:
    return (
        number(
            7,
            "In one sentence",
            "The worst problem of the monitor. Any colour but blue is bad: failures of clients may then be missing on "
            "all dashboards. What to do: find the panel below that shows the problem. Alerts: all with names that "
            "begin with KafkaClientHealth….",
            _state(),
            "none",
            mappings=words(_SENTENCES),
            nothing="It is unknown whether the monitor sees clients: Prometheus scrapes no monitor, or no exporter.",
            width=24,
        ),
        number(
            1,
            "Monitor",
            "Whether Prometheus reaches the monitor. Down is bad: verdicts are not updated. What to do: read the "
            "monitor's log and restart the monitor. Alerts: KafkaClientHealthMonitorDown fires if the monitor is down, "
            "KafkaClientHealthRestarting if it ends repeatedly, KafkaClientHealthNameTaken if two monitors have the "
            "same name.",
            'min(up{job="kafka-client-health-monitor"})',
            "none",
            mappings=up_words(),
            nothing="not scraped",
        ),
        number(
            2,
            "Query",
            "Whether the monitor's streaming query runs. Down is bad: no client is judged. What to do: read the "
            "exception in the monitor's log and restart the monitor. Alert: KafkaClientHealthQueryDown.",
            f"min({_P}_query_up{{{OF_KEPT}}})",
            "none",
            mappings=up_words(),
            nothing="monitor is silent",
        ),
        number(
            3,
            "Exporter",
            "Whether the exporter has read its whole topic and reaches Kafka. Down is bad: the data is old or "
            "incomplete. What to do: open the exporter's /healthz. Alerts: KafkaClientHealthExporterBlind fires if "
            "every exporter of a shard answers, but with old or incomplete data. KafkaClientHealthReplicaBlind or "
            "KafkaClientHealthTargetDown fires if only one of several exporters fails.",
            f"min(max by ({listed((*KEPT, 'shard'))}) ({_P}_exporter_up{{{OF_KEPT}}}))",
            "none",
            mappings=up_words(),
            nothing="exporter is silent",
        ),
        number(
            4,
            "Age of the newest record",
            "Age of the newest data that a verdict uses. High is bad: verdicts may be out of date. What to do: see "
            "whether the monitor falls behind, in the panel 'Records not yet read'. Alert: KafkaClientHealthStale.",
            age_of_newest(),
            AGE,
            above={STALE_SECONDS: CRITICAL},
            nothing="exporter is silent",
        ),
        number(
            5,
            "Verdict latency, median",
            "Median time from a failure's onset to its verdict, in the chosen time range. High is bad: failures are "
            "found late. What to do: see the panels 'Records not yet read' and 'Batch duration'. No alert on this "
            "value.",
            f"histogram_quantile(0.5, sum by (le) (rate({_LATENCY}[$__range]))) >= 0",
            "s",
            nothing="no fault found",
        ),
        number(
            6,
            "Version",
            "Version of the running monitor. Two versions at once mean that a deployment is in progress. No alert.",
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
            "Unread records in each input topic. Rising is bad: the monitor falls behind. What to do: give the "
            "monitor more cores if batches take longer than the trigger interval. Alert: "
            "KafkaClientHealthFallingBehind.",
            [_each("source_topic", lambda by: f"sum by ({by}) ({_P}_input_lag_records{{{OF_KEPT}}})")],
            "short",
        ),
        chart(
            11,
            "Age of the newest event",
            "Age of the newest event that was read from each topic. High is bad: data is missing or late. A topic of "
            "logs may be empty while everything is well. Alerts: while unread records wait, "
            "KafkaClientHealthFallingBehind fires above the lower dashed line. While no unread record waits, "
            "KafkaClientHealthInputSilent fires above the upper dashed line.",
            [
                _each(
                    "source_topic, of",
                    lambda by: _age(by, "newest_event_timestamp_seconds"),
                    "{{source_topic}}, {{of}}",
                )
            ],
            CLOCK,
            above={BEHIND_SECONDS: WARNING, STALE_SECONDS: WARNING},
        ),
        chart(
            12,
            "Records read",
            "Records per second from each input topic. A fall to 0 is bad. What to do: check the programs that write "
            "to the topic. Alerts: KafkaClientHealthInputSilent fires if no more records arrive, "
            "KafkaClientHealthInputMissing if there is no such topic, KafkaClientHealthNothingArrived if metrics of "
            "clients have never arrived.",
            [_each("source_topic", lambda by: _rate(by, "records_read_total"))],
            "recps",
        ),
        chart(
            13,
            "Share of records rejected",
            "Share of the input records that the monitor rejects. High is bad: clients with rejected records are not "
            "monitored. What to do: read the header reject_reason of the records on the topic of rejects. Alert: "
            "KafkaClientHealthRejectsRising.",
            [
                _each(
                    "source_topic",
                    lambda by: f"{_rate(by, 'records_rejected_total')}\n/\n({_rate(by, 'records_read_total')} > 0)",
                )
            ],
            "percentunit",
            above={REJECTED_RATIO: WARNING},
        ),
    )


def _work() -> Sequence[Panel]:
    return (
        chart(
            20,
            "Batch duration",
            "Duration of the last batch. If batches always last longer than the trigger interval, the monitor falls "
            "behind. What to do: give the monitor more cores or fewer clients. Alert: KafkaClientHealthFallingBehind.",
            [_each("query", lambda by: f"max by ({by}) ({_P}_batch_duration_seconds{{{OF_KEPT}}})")],
            "s",
        ),
        chart(
            21,
            "Time since the last batch",
            "Time since the monitor's query last ended a batch. High is bad: the query hangs. What to do: take a "
            "thread dump of the driver. Alert: KafkaClientHealthQueryHung.",
            [_each("query", lambda by: _age(by, "last_batch_timestamp_seconds"))],
            CLOCK,
        ),
        chart(
            22,
            "Clients in the state",
            "Number of clients in the state that the monitor keeps. A number that rises for days is bad: some clients "
            "get a new name at each start. What to do: give clients stable ids, or the monitor more memory. Alert: "
            "KafkaClientHealthLimitReached fires if a limit is reached.",
            [_each("query", lambda by: f"max by ({by}) ({_P}_state_rows{{{OF_KEPT}}})")],
            "short",
        ),
        chart(
            23,
            "Verdict latency",
            "Time from the onset of a failure to its verdict, shown while failures are found. Much more than a minute "
            "is bad. What to do: see the panels 'Records not yet read' and 'Batch duration'. No alert on this value.",
            [
                _each("", lambda by: _latency(by, 0.5), "median", WORST // 2),
                _each("", lambda by: _latency(by, 0.95), "95 %", WORST // 2),
            ],
            "s",
        ),
        chart(
            24,
            "Changes of verdicts",
            "Number of incidents that were opened, escalated, moved to another client, closed or withdrawn. Many "
            "withdrawn incidents, or incidents that open and close repeatedly, are bad: the monitor suspects or "
            "confirms failures too easily. What to do: read about false alarms in the runbook of the failure mode. No "
            "alert.",
            [_each("change", lambda by: _rate(by, "incident_changes_total", "increase"))],
            "none",
            width=24,
        ),
    )


def _left_out() -> Sequence[Panel]:
    return (
        chart(
            30,
            "Records that came too late",
            "Samples and events per second that were left out because they came too late. If the loss lasts, a clock "
            "or a collector is far behind. What to do: check the clocks of the clients. Alert: "
            "KafkaClientHealthLateRecords.",
            [_each("query", lambda by: _rate(by, "late_records_total"))],
            "recps",
            nothing=NONE,
        ),
        chart(
            31,
            "Records rejected, by reason",
            "Records per second that the monitor rejects, by reason. Any rejected record is bad. What to do: read the "
            "records on the topic of rejects. Alerts: KafkaClientHealthRejectsRising fires if the monitor rejects many "
            "records, KafkaClientHealthRecordSkipped for the reason 'fatal', KafkaClientHealthJudgementFailed for the "
            "reason 'step-failed'.",
            [_each("reason", lambda by: _rate(by, "records_rejected_total"))],
            "recps",
            nothing=NONE,
        ),
        chart(
            32,
            "Series left out",
            "Series that the exporter left out because their metric has more than max_series_per_metric series. Any "
            "series left out is bad: some clients are missing. What to do: raise max_series_per_metric, or divide "
            "the clients among shards. Alert: KafkaClientHealthSeriesDropped.",
            [_each("metric", lambda by: _rate(by, "series_dropped_total", "increase"))],
            "short",
            nothing=NONE,
        ),
        chart(
            33,
            "Health records that the exporter cannot read",
            "Records on the topic of client health that the exporter cannot read. Any unreadable record is bad: "
            "another program writes to the topic, or monitor and exporter have different versions. What to do: compare "
            "the versions of monitor and exporter. Alert: KafkaClientHealthDecodeErrors.",
            [_each("", lambda by: _rate(by, "exporter_decode_errors_total", "increase"), "records")],
            "short",
            nothing=NONE,
        ),
        chart(
            34,
            "Left out by a limit",
            "Samples and events per second that were left out because a limit in the settings ([monitor]) is reached. "
            "If the loss lasts, clients beyond the limit are not monitored. What to do: find the program that sends so "
            "much, or raise the limit. Alert: KafkaClientHealthLimitReached.",
            [_each("limit", lambda by: _rate(by, "left_out_total"))],
            "short",
            nothing=NONE,
        ),
        chart(
            35,
            "Input lost before the monitor read it",
            "Records that Kafka deleted before the monitor read them, and partitions that were deleted and created "
            "again. Any loss is bad: clients cannot be judged for the time that their lost records cover. "
            "What to do: raise retention.ms of the topic. Alert: KafkaClientHealthInputLost.",
            [
                _each("source_topic", lambda by: _rate(by, "lost_records_total", "increase"), most=WORST // 2),
                _each(
                    "source_topic",
                    lambda by: _rate(by, "recreated_partitions_total", "increase"),
                    "{{source_topic}}: partitions made anew,",
                    WORST // 2,
                ),
            ],
            "short",
            nothing=NONE,
        ),
        chart(
            36,
            "Clocks that are wrong",
            "Difference between a client's clock and the clocks of other clients, if it is at least a minute. A wrong "
            "clock affects only its own client: samples from the future are left out. What to do: correct the time "
            "service of the client's machine. Alert: KafkaClientClockWrong.",
            [Query(worst(f"max by ({BY_CLIENT}) (abs({_SKEW}))", BY_CLIENT), LEGEND)],
            CLOCK,
            nothing=NONE,
        ),
        number(
            37,
            "Files of owners",
            "Whether the exporter could read the current [owners] files. If the exporter could not read the files, "
            "alerts go to the previous owners of services. What to do: run kafka-health check-config, and correct the "
            "line that the error message names. Alert: KafkaClientHealthOwnersUnread.",
            f"min({_P}_exporter_owners_read{{{OF_KEPT}}})",
            "none",
            mappings=words({0: ("unread", CRITICAL), 1: ("read", GOOD)}),
            nothing="none are set",
        ),
    )
