"""Measure how fast Spark's Kafka source reads a topic without any output."""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass

from pyspark.sql import SparkSession

from clienthealth.platform import jars
from deploy.demo.processes import Process
from tests.bench.lab import Lab
from tests.bench.publish import Filled
from tests.bench.usage import Usage

PASSES, LIMIT_SECONDS = 3, 300.0


@dataclass(frozen=True)
class Read:
    rate: float
    micros: float


def read(lab: Lab, topic: str, filled: Filled) -> Read:
    output = lab.folder / "raw.txt"
    command = [sys.executable, "-m", "tests.bench.raw", lab.servers, topic, str(filled.records), str(PASSES)]
    process = Process("raw read", command, output)
    try:
        with Usage({"reader": process.pid, "broker": lab.broker.pid}) as usage:
            process.wait_until(lambda: len(_passes(output.read_text("utf-8"))) == PASSES, LIMIT_SECONDS)
            warm = _passes(output.read_text("utf-8"))[1:]
            micros = [usage.cost(begin, end).per_record(filled.records) for begin, end, _ in warm]
    finally:
        process.stop(20)
    rates = Read(statistics.median(filled.records / seconds for *_, seconds in warm), statistics.median(micros))
    print(f"  read alone: {rates.rate:,.0f} records/s, CPU {rates.micros:.1f} µs a record", flush=True)
    return rates


def _passes(output: str) -> list[tuple[float, float, float]]:
    return [tuple(json.loads(line)) for line in output.splitlines() if line.startswith("[") and line.endswith("]")]


def main(servers: str, topic: str, records: int, passes: int) -> None:
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    options = {
        "spark.master": "local[*]",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.driver.extraClassPath": os.pathsep.join(map(str, jars.classpath("spark"))),
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.appName("raw read")
    for key, value in options.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    for _ in range(passes):
        rows = (
            spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", servers)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", "200000")
            .load()
            .select("value")
        )
        with tempfile.TemporaryDirectory() as checkpoint:
            begin = time.time()
            query = (
                rows.writeStream.format("noop")
                .option("checkpointLocation", checkpoint)
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()
            batches = [progress for progress in query.recentProgress if progress.numInputRows]
        assert sum(batch.numInputRows for batch in batches) == records
        seconds = sum(batch.durationMs["triggerExecution"] for batch in batches) / 1000
        print(json.dumps([begin, time.time(), seconds]), flush=True)
    # Stay alive, so that the parent process can read the CPU time of this process.
    time.sleep(60)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
