"""Panels on the lag of consumer groups."""

from __future__ import annotations

from clienthealth.configuration.installation import KEPT, listed
from clienthealth_exporters.prometheus.limits import LIMITS
from dashboards.look import CRITICAL, LAG_STATES, WARNING, lag_words
from dashboards.panel import AGE, CLOCK, Panel, Query, chart, number, rows, timeline
from dashboards.scope import NAMED_KEPT, OF_GROUP, OF_GROUP_TOPIC, OF_TOPIC, WORST, to_group, worst

_BY = listed((*KEPT, "cluster_name", "group"))
_TOPIC = listed((*KEPT, "cluster_name", "topic"))
_PARTITION = f"{_TOPIC}, partition"
_GROUP = f"{{{{group}}}} on {{{{cluster_name}}}} {NAMED_KEPT}"
_TROUBLE = "STALL|STOP|REWIND"


def in_trouble(width: int = 4) -> Panel:
    return number(
        200,
        "Groups in trouble",
        "Groups that make no progress, have stopped committing, or went back to an earlier offset. Any group in "
        "trouble is bad. What to do: check whether the group's members run and poll. Alerts: KafkaClientLagStalled, "
        "KafkaClientLagStopped, KafkaClientLagRewound. Groups that only fall behind are not included; the "
        "alert KafkaClientLagGrowing reports these groups.",
        f'count(max by ({_BY}) (kafka_consumergroup_group_status{{status=~"{_TROUBLE}", {OF_GROUP}}}))\n'
        f"or\n0 * max(kafka_consumergroup_group_status{{{OF_GROUP}}})",
        "none",
        above={1: CRITICAL},
        nothing="no groups",
        width=width,
    )


def largest_lag_seconds(width: int = 4) -> Panel:
    return number(
        201,
        "Largest lag in time",
        "Age of the oldest record that a group has not committed. Which age is bad depends on the group's purpose. A "
        "constant rise is always bad. Alert: KafkaClientLagGrowing.",
        f"max(kafka_consumergroup_group_max_lag_seconds{{{OF_GROUP}}})",
        AGE,
        nothing="not known",
        width=width,
    )


def largest_lag_records(width: int = 4) -> Panel:
    return number(
        202,
        "Largest lag in records",
        "The largest number of uncommitted records that a group has on one partition. A constant rise is bad. Alert: "
        "KafkaClientLagGrowing.",
        f"max(kafka_consumergroup_group_max_lag{{{OF_GROUP}}})",
        "short",
        nothing="no groups",
        width=width,
    )


def states() -> Panel:
    parts = [
        f'kafka_consumergroup_group_status{{status="{state}", {OF_GROUP}}} * {number_}'
        for number_, state in reversed(list(enumerate(LAG_STATES)))
    ]
    return timeline(
        203,
        "State of each group",
        f"The {WORST} worst groups. Blue: the group is fine (OK, IDLE). Yellow: the group falls behind (WARN). Dark "
        "red is bad: the group makes no progress (STALL), has stopped committing (STOP) or went back to an earlier "
        "offset (REWIND). What to do: check whether the group's members run and poll. Alerts: KafkaClientLag….",
        Query(worst("\nor\n".join(parts), _BY), _GROUP),
        lag_words(),
        nothing="no groups",
        links=to_group(),
    )


def lag_seconds() -> Panel:
    return chart(
        204,
        "Lag in time",
        "Age of the oldest uncommitted record of each group, the largest first. A rise is bad. A saw-tooth shows a "
        "batch job. What to do: compare the lag with the panel 'Records in and out'. Alert: KafkaClientLagGrowing.",
        [Query(worst(f"kafka_consumergroup_group_max_lag_seconds{{{OF_GROUP}}}", _BY), _GROUP)],
        CLOCK,
        links=to_group(),
    )


def lag_records() -> Panel:
    return chart(
        205,
        "Lag in records",
        "Records that each group has not committed, over all its partitions. A rise is bad. What to do: add consumers "
        "up to the number of partitions, or make the handler faster. Alert: KafkaClientLagGrowing.",
        [Query(worst(f"kafka_consumergroup_group_sum_lag{{{OF_GROUP}}}", _BY), _GROUP)],
        "short",
        links=to_group(),
    )


def lag_by_topic() -> Panel:
    lag = f"kafka_consumergroup_group_topic_sum_lag{{{OF_GROUP_TOPIC}}}"
    return chart(
        206,
        "Lag by topic",
        "Number of records that each group has not committed, by topic. If the lag rises on one topic only, the "
        "topic's handler is too slow or cannot process a record. Alert: KafkaClientLagStalled, KafkaClientLagStopped.",
        [Query(worst(lag, f"{_BY}, topic"), f"{{{{topic}}}}: {_GROUP}")],
        "short",
        links=to_group(),
    )


def _busiest(offset: str, partition: str, by: str) -> str:
    # `@ end()` ranks series by their rate over the chart's whole range, so that all points show the same series.
    pace = f"max by ({partition}) (deriv({offset}[$__range:$__interval] @ end()))"
    picked = f"topk({WORST // 2}, sum by ({by}) ({pace}))"
    return f"sum by ({by}) (max by ({partition}) (deriv({offset}[$__rate_interval])\nand on ({by})\n{picked}))"


def records_in_and_out() -> Panel:
    written = _busiest(f"kafka_partition_latest_offset{{{OF_TOPIC}}}", _PARTITION, _TOPIC)
    committed = _busiest(
        f"kafka_consumergroup_group_offset{{{OF_GROUP_TOPIC}}}", f"{_BY}, topic, partition", f"{_BY}, topic"
    )
    return chart(
        207,
        "Records in and out",
        "Records per second that are written to each topic (dashed) and committed by each group, the largest first. A "
        "group falls behind if it commits fewer records than producers write. What to do: check whether the group's "
        "handler is too slow, or whether the group has too few members. Alert: KafkaClientLagGrowing.",
        [
            Query(written, f"in: {{{{topic}}}} on {{{{cluster_name}}}} {NAMED_KEPT}", dashed=True),
            Query(
                f"clamp_min({committed}, 0)",
                f"out: {{{{topic}}}} by {_GROUP}",
            ),
        ],
        "recps",
        links=to_group(),
    )


def retention() -> Panel:
    return chart(
        208,
        "Unread share of the retained records",
        "Number of unread records on the topic's worst partition, as a share of the records that Kafka retains. Near "
        "100 % is bad: Kafka is about to delete unread records. Above 100 %, Kafka has already deleted some unread "
        "records. The chart shows a topic only after Kafka has deleted records of the topic. The chart shows a group "
        "only if the group has members or has committed within a week. What to do: raise the topic's retention. "
        "Alerts: KafkaClientLagRetentionAtRisk, KafkaClientLagRecordsDeleted.",
        [
            Query(
                worst(f"group:kafka_consumergroup_unread:ratio{{{OF_GROUP_TOPIC}}}", f"{_BY}, topic"),
                f"{{{{topic}}}}: {_GROUP}",
            )
        ],
        "percentunit",
        above={LIMITS.retention_used_ratio: WARNING, LIMITS.retention_lost_ratio: CRITICAL},
        ceiling=1,
        links=to_group(),
    )


def partitions() -> Panel:
    by = f"{_BY}, topic, partition"
    return rows(
        209,
        "Partitions furthest behind",
        "The partitions with the largest lag, in records and in time, and the members that read them. A partition "
        "with far more lag than the others has a stuck consumer or a hot key. Alert: KafkaClientLagStalled.",
        {
            "records": (
                f"topk(50, max by ({by}, client_id, member_host) (kafka_consumergroup_group_lag{{{OF_GROUP_TOPIC}}}))",
                "short",
            ),
            "time": (
                f"topk(50, max by ({by}, client_id, member_host) "
                f"(kafka_consumergroup_group_lag_seconds{{{OF_GROUP_TOPIC}}}))",
                CLOCK,
            ),
        },
        largest="records",
        nothing="no groups",
    )
