"""The one streaming query: topics → decode → shuffle by bucket → step → sinks."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.state import GroupStateTimeout

from clienthealth.incidents import OpenIncident
from clienthealth.logs.events import LITERALS
from clienthealth.selfmetrics import QUERY, SelfMetrics
from clienthealth.settings import Settings
from clienthealth.streaming import history
from clienthealth.streaming.batch import Batch
from clienthealth.streaming.decoding import DECODED, RAW, decoder
from clienthealth.streaming.kafka import stream
from clienthealth.streaming.stepping import ROWS, STATE, stepper


def raw(spark: SparkSession, settings: Settings) -> DataFrame:
    """All input topics as rows of RAW. A record that is too large loses its value here, before it reaches Python."""
    topics = dict.fromkeys((*settings.topics.metrics, *settings.topics.logs))
    too_large = F.octet_length("value") > settings.monitor.max_record_bytes
    columns = {
        "value": F.when(too_large, None).otherwise(F.col("value")),
        "size": F.when(too_large, F.octet_length("value")),
        "headers": F.when(F.size("headers") > 0, F.to_json("headers")),
        "ts_ms": F.unix_millis("timestamp"),
    }
    found = stream(spark, settings, list(topics))
    return found.select(*(columns.get(name, F.col(name)).alias(name) for name in RAW))


def rows(spark: SparkSession, settings: Settings, opened: Sequence[OpenIncident] = ()) -> DataFrame:
    """The rows to publish, as a stream."""
    decoded = raw(spark, settings).mapInArrow(decoder(settings, LITERALS), DECODED)
    return decoded.groupBy("bucket").applyInPandasWithState(
        stepper(settings, opened),  # type: ignore[arg-type]
        ROWS,
        STATE,
        "update",
        GroupStateTimeout.NoTimeout,
    )


def start(spark: SparkSession, settings: Settings, metrics: SelfMetrics) -> StreamingQuery:
    """Start the query; it goes on where its checkpoint stands."""
    root = settings.monitor.history
    history.create(spark, root)
    return (
        rows(spark, settings, history.open_incidents(spark, root))
        .writeStream.queryName(QUERY)
        .outputMode("update")
        .option("checkpointLocation", f"{settings.monitor.checkpoint}/{QUERY}")
        # How often is looked for records; whether they make a batch, the source decides (`kafka.stream`).
        .trigger(processingTime="1 second")
        .foreachBatch(Batch(settings, metrics))
        .start()
    )
