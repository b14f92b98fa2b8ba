"""Alerts on the four measurements. Limits and their reasons are in `clienthealth_exporters.prometheus.limits`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clienthealth.settings.links import dashboard_uid
from clienthealth_exporters.alerts.owners import owned, owned_group
from clienthealth_exporters.alerts.rule import CLIENT, Alert, Links, Recording, by, on, queried
from clienthealth_exporters.prometheus.limits import LIMITS

_BY = by(*CLIENT)
_BY_GROUP = by("cluster_name", "group")
_ON = on(*CLIENT)
_FILLED = f"max {_BY} (kafka_client_producer_buffer_used_ratio) > {LIMITS.buffer_used_ratio}"
_SLOW = f'max {_BY} (kafka_client_producer_callback_seconds{{stat="avg"}}) > {LIMITS.callback_seconds}'
_WHO = "{{ $labels.client_id }} of {{ $labels.service }} on {{ $labels.instance }}"
#: A measurement near its limit goes up and down; one alert, not ten.
_KEEP = "5m"


def client_alerts(links: Links) -> Sequence[Alert]:
    """Buffer, callback, topic queue and clock of single clients."""
    producers, consumers = dashboard_uid("producers"), dashboard_uid("consumers")
    return [
        Alert(
            name="KafkaClientBufferNearlyExhausted",
            severity="warning",
            expr=(
                f"{owned(_FILLED, *CLIENT)}\n"
                f"and {_ON} (\n"
                f"  max {_BY} (kafka_client_producer_buffer_seconds_to_full) < {LIMITS.buffer_seconds_to_full:g}\n"
                f"  or\n"
                f"  max {_BY} (kafka_client_producer_waiting_threads) > 0\n"
                f")"
            ),
            hold="2m",
            keep=_KEEP,
            summary="A producer's buffer is nearly exhausted and will be full soon, or is full already.",
            description=(
                f"{_WHO} uses {{{{ $value | humanizePercentage }}}} of its buffer and it goes on filling, or threads "
                "wait in send() already. When it is full, send() blocks for max.block.ms and then fails. What to do: "
                "find out whether records leave too slowly (brokers, network, callbacks) or are produced too fast. "
                f"State: {links.client()}"
            ),
            runbook="buffer-exhaustion",
            dashboard=producers,
            why=(
                "A full buffer alone is back-pressure; filling further or blocking callers is harm.\n"
                "Window 60 s + scrape 15 s + 2 m: known some three minutes after it begins, long before it is full."
            ),
            labels={"measurement": "buffer"},
            limits=("buffer_used_ratio", "buffer_seconds_to_full"),
        ),
        Alert(
            name="KafkaClientCallbacksSlow",
            severity="warning",
            expr=(
                f"{owned(_SLOW, *CLIENT)}\n"
                f"unless {_ON}\n"
                f"  max {_BY} (kafka_client_producer_io_thread_busy_ratio) < {LIMITS.io_thread_busy_ratio}"
            ),
            hold="5m",
            keep=_KEEP,
            summary="A producer's callbacks are slow and hold up its I/O thread.",
            description=(
                f"The callbacks of {_WHO} take {{{{ $value | humanizeDuration }}}} each on average. They run on the "
                "producer's only I/O thread: while one runs, nothing is sent and no timeout is enforced. What to do: "
                f"hand the work of the callback to another thread. State: {links.client()}"
            ),
            runbook="callback-latency",
            dashboard=producers,
            why="Slow and busy: a producer that sends a record now and then may take its time in the callback.",
            labels={"measurement": "callback"},
            limits=("callback_seconds", "io_thread_busy_ratio"),
        ),
        Alert(
            name="KafkaClientTopicQueueSaturated",
            severity="warning",
            expr=owned(
                f"max {by(*CLIENT, 'topic')} (kafka_client_consumer_queue_used_ratio) > {LIMITS.queue_used_ratio}",
                *(*CLIENT, "topic"),
            ),
            hold="5m",
            keep=_KEEP,
            summary="The queue between a consumer and one of its topics is full: its handler does not keep up.",
            description=(
                f"The queue of topic {{{{ $labels.topic }}}} in {_WHO} is {{{{ $value | humanizePercentage }}}} full. "
                "Other topics of the same client starve when they share its fetcher or its loop. What to do: make "
                "the handler of this topic faster, or give the topic a consumer of its own. "
                f"State: {links.client()}"
            ),
            runbook="topic-queue-saturation",
            dashboard=consumers,
            dashboard_labels=(*CLIENT, "topic"),
            why="A queue is full for moments whenever a consumer catches up; for minutes when its handler is too slow.",
            labels={"measurement": "queue"},
            limits=("queue_used_ratio",),
        ),
        Alert(
            name="KafkaClientClockWrong",
            severity="warning",
            expr=owned(f"abs(max {_BY} (kafka_client_clock_skew_seconds)) > 0", *CLIENT),
            hold="10m",
            keep=_KEEP,
            summary="A client's clock is wrong, or its readings always come late.",
            description=(
                f"The clock of {_WHO} differs by {{{{ $value | humanizeDuration }}}} from others. It is judged "
                "by its own time, and no other client is affected; readings that are too old or of the future are left "
                "out. What to do: mend the time service (chrony, NTP) of its machine, or look at the collector that "
                f"holds its readings back. State: {links.client()}"
            ),
            runbook="clock-skew",
            dashboard=producers,
            why=(
                "The series is there from a minute on. After a break in its network a client delivers old readings\n"
                "for a moment: ten minutes tell a clock."
            ),
            labels={"measurement": "clock"},
        ),
    ]


@dataclass(frozen=True)
class LagTrouble:
    """A state of a group that opens a ticket. `doing`: what the group does, after its name.

    `bridged`: for so long the state holds while nothing better is known.
    """

    name: str
    status: str
    hold: str
    summary: str
    doing: str
    action: str
    why: str
    bridged: str = ""


LAG_TROUBLES = (
    LagTrouble(
        name="KafkaClientLagGrowing",
        status="WARN",
        hold="10m",
        summary="A consumer group falls further and further behind.",
        doing="reads more slowly than its topics grow",
        action="add consumers up to the number of partitions, or make the handler faster",
        why=(
            "The job wants a robust rise over 15 min already; ten more leave room for a burst.\n"
            "A group that cannot be judged in between, for want of commits, is no better for that."
        ),
        bridged="5m",
    ),
    LagTrouble(
        name="KafkaClientLagStalled",
        status="STALL",
        hold="2m",
        summary="A consumer group commits the same offset again and again.",
        doing="commits, but its offset stands still while records wait",
        action="look for a record that it cannot process, or a paused partition",
        why="The state needs three equal commits with work waiting: certain when it is published.",
    ),
    LagTrouble(
        name="KafkaClientLagStopped",
        status="STOP",
        hold="2m",
        summary="A consumer group has stopped committing while records wait.",
        doing="has stopped committing although records wait",
        action="see whether its members still run and poll",
        why="The state needs 60 s, or three commit gaps, without a commit and with work waiting; deploys take less.",
    ),
    LagTrouble(
        name="KafkaClientLagRewound",
        status="REWIND",
        hold="",
        summary="A consumer group's committed offset has gone back.",
        doing="has gone back to an earlier offset: records are processed twice",
        action="find out who reset the offset, or why it was lost (auto.offset.reset, retention of offsets)",
        why="It has happened: waiting makes it no truer.",
    ),
)


def lag_alerts(links: Links) -> Sequence[Alert]:
    """Lag of consumer groups, by the state that the job has found; no partition label: one alert per group."""
    return [
        *(_state(state, links) for state in LAG_TROUBLES),
        _at_risk(links, "warning", LIMITS.retention_used_ratio, "10m"),
        _at_risk(links, "critical", LIMITS.retention_lost_ratio, "5m"),
        _deleted(links),
    ]


def _state(state: LagTrouble, links: Links) -> Alert:
    lag = (
        queried("max(kafka_consumergroup_group_sum_lag{LABELS})", "cluster_name", "group")
        + " It is {{ . | first | value | humanize }} records behind.{{ end }}"
    )
    return Alert(
        name=state.name,
        severity="warning",
        expr=owned_group(
            f"max {_BY_GROUP} (\n"
            f'  max_over_time(kafka_consumergroup_group_status{{status="{state.status}"}}[{state.bridged}])\n'
            f") == 1\n"
            f'unless max {_BY_GROUP} (kafka_consumergroup_group_status{{status=~"OK|IDLE"}}) == 1'
            if state.bridged
            else f'max {_BY_GROUP} (kafka_consumergroup_group_status{{status="{state.status}"}}) == 1',
            *("cluster_name", "group"),
        ),
        hold=state.hold,
        keep=_KEEP,
        summary=state.summary,
        description=(
            f"Group {{{{ $labels.group }}}} on {{{{ $labels.cluster_name }}}} {state.doing}.{lag} What to do: "
            f"{state.action}. State: {links.status_page}/?q={{{{ $labels.group | urlquery }}}}"
        ),
        runbook="consumer-lag",
        dashboard=dashboard_uid("consumers"),
        dashboard_labels=("group",),
        why=state.why,
        labels={"measurement": "lag"},
    )


UNREAD = "group:kafka_consumergroup_unread:ratio"
COMMITTED = "group:kafka_consumergroup_commit:timestamp_seconds"
_OF_TOPIC = ("cluster_name", "group", "topic")
#: Of one installation: two that have no name are scraped at different addresses, and replicas say the same anyway.
_APART = ("exporter", "instance")
#: Who has committed within so long waits for the records; the rest is abandoned.
_MISSED_SECONDS = 7 * 86_400


def lag_recordings() -> Sequence[Recording]:
    """Of what a topic retains the share that a group has not read, worst partition; when it committed last.

    While offset 0 is still there, nothing is deleted. A lag of one record is what the marker of a transaction leaves
    behind, which nobody reads. Of a group that nobody is in and that has not committed for a week nobody waits for the
    records: a recording that goes on with itself remembers that, as offsets have no time.
    """
    partition = ("cluster_name", "topic", "partition")
    lag = f"max {by(*_APART, 'group', *partition)} (kafka_consumergroup_group_lag > 1)"
    retained = (
        f"  max {by(*_APART, *partition)} (kafka_partition_latest_offset)\n"
        f"  - max {by(*_APART, *partition)} (kafka_partition_earliest_offset > 0)"
    )
    unread = f"{lag}\n/ {on(*_APART, *partition)} group_left ()\n(\n{retained}\n)"
    offsets = f"sum {by(*_OF_TOPIC)} (max {by(*_OF_TOPIC, 'partition')} (kafka_consumergroup_group_offset"
    return [
        Recording(
            COMMITTED,
            f"time() + 0 * (\n{_indented(f'{offsets}))')}\n  !=\n{_indented(f'{offsets} offset 5m))')}\n)\n"
            f"or\n"
            f"last_over_time({COMMITTED}[1h])\n"
            f"and\n"
            f"max {by(*_OF_TOPIC)} (kafka_consumergroup_group_offset)",
        ),
        Recording(
            UNREAD,
            f"max {by(*_OF_TOPIC)} (\n{_indented(unread)}\n)\n"
            f"and (\n"
            f'  max {by(*_OF_TOPIC)} (kafka_consumergroup_group_lag{{consumer_id!=""}})\n'
            f"  or\n"
            f"  {COMMITTED} > time() - {_MISSED_SECONDS}\n"
            f")",
        ),
    ]


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())


def _at_risk(links: Links, severity: str, share: float, hold: str) -> Alert:
    pages = severity == "critical"
    ahead = (
        f"deriv({UNREAD}[30m]) * 3600 < -{LIMITS.retention_gain_ratio:g}"
        if pages
        else f"predict_linear({UNREAD}[30m], 6 * 3600) < {share}"
    )
    return Alert(
        name="KafkaClientLagRetentionAtRisk",
        severity=severity,
        expr=owned_group(f"{UNREAD} > {share} <= 1\nunless\n{ahead}", *_OF_TOPIC),
        hold=hold,
        keep=_KEEP,
        summary="A consumer group is so far behind that unread records "
        + ("are about to be deleted." if pages else "will be deleted if it goes on."),
        description=(
            "Group {{ $labels.group }} has not read {{ $value | humanizePercentage }} of what topic "
            "{{ $labels.topic }} on {{ $labels.cluster_name }} retains, and the topic deletes its oldest records; none "
            "of the unread ones yet. What to do: let the topic keep them longer (retention.ms and retention.bytes, "
            "never below what they are), then get the group going. "
            f"State: {links.status_page}/?q={{{{ $labels.group | urlquery }}}}"
        ),
        runbook="consumer-lag",
        dashboard=dashboard_uid("consumers"),
        dashboard_labels=("group", "topic"),
        why=(
            "Lag as a share of what is retained, worst partition; above 1 unread records are gone already.\n"
            + (
                "A group that gets ahead, as one that reads a topic from its beginning, is not about to lose anything."
                if pages
                else "Who is out of danger in six hours, at the pace of the last half, needs no ticket."
            )
        ),
        labels={"measurement": "lag"},
        limits=("retention_used_ratio", "retention_lost_ratio", "retention_gain_ratio"),
    )


def _deleted(links: Links) -> Alert:
    return Alert(
        name="KafkaClientLagRecordsDeleted",
        severity="critical",
        expr=owned_group(f"{UNREAD} > 1", *_OF_TOPIC),
        hold="5m",
        keep=_KEEP,
        summary="Records that a consumer group has not read have been deleted.",
        description=(
            "Topic {{ $labels.topic }} on {{ $labels.cluster_name }} has deleted records that group "
            "{{ $labels.group }} had not committed: they are lost to it. What to do: get the group going, and let "
            "the topic keep more (retention.ms and retention.bytes); send the lost records again if their source "
            f"allows it. State: {links.status_page}/?q={{{{ $labels.group | urlquery }}}}"
        ),
        runbook="consumer-lag",
        dashboard=dashboard_uid("consumers"),
        dashboard_labels=("group", "topic"),
        why="The committed offset is before the first that is retained. Abandoned groups lose nothing that is missed.",
        labels={"measurement": "lag"},
    )
