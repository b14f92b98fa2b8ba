"""The review counts known issues that belong to no failure mode."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from clienthealth.model.clients import Client
from clienthealth.review.model import AlsoSeen
from clienthealth.review.period import Period
from clienthealth.review.queries import also_seen
from tests.support.generated_history import client_rows, minute_rows

DAY = Period(datetime(2026, 11, 10, tzinfo=UTC), datetime(2026, 11, 11, tzinfo=UTC))
A = Client("orders", "h", "h:1", "a", "producer")


def test_lines_and_clients_by_what_and_service_beside_the_period_before(spark: SparkSession) -> None:
    def minutes(client: Client, start: datetime, count: int, *seen: tuple[str, int]):  # type: ignore[no-untyped-def]
        issues = F.array(*(F.struct(F.lit(what).alias("what"), F.lit(n).alias("lines")) for what, n in seen))
        values = {"also_seen": issues} if seen else {}
        return minute_rows(client_rows(spark, [client]), start, count, values)

    b, other = msgspec.structs.replace(A, client_id="b"), msgspec.structs.replace(A, service="billing")
    noon, yesterday = datetime(2026, 11, 10, 12, tzinfo=UTC), datetime(2026, 11, 9, 12, tzinfo=UTC)
    history = (
        minutes(A, noon, 3, ("tls", 2), ("authorisation", 1))
        .unionByName(minutes(b, noon, 1, ("tls", 4)))
        .unionByName(minutes(other, noon, 2, ("tls", 1)))
        .unionByName(minutes(other, yesterday, 1, ("tls", 7), ("fenced", 1)))
        .unionByName(minutes(b, yesterday, 5))
    )
    assert also_seen(history, [DAY.before(1), DAY]) == [
        AlsoSeen("tls", "orders", 10, 2, 0),
        AlsoSeen("authorisation", "orders", 3, 1, 0),
        AlsoSeen("tls", "billing", 2, 1, 7),
    ]
