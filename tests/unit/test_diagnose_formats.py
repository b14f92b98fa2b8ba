"""`kafka-health diagnose FILE` reports the file's format, and the clients in the file."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path

import pytest

from clienthealth.diagnose.examine import examine
from clienthealth.ops.cli import main
from clienthealth.settings import Settings
from tests.support.raw_records import SAMPLES


def test_files_of_one_record_and_of_one_per_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    point = json.loads((SAMPLES / "telegraf_jolokia2_kafka_producer.json").read_text())
    rounds = [json.dumps({**point, "timestamp": point["timestamp"] + 10 * n}) for n in range(4)]
    lines = tmp_path / "telegraf.json"
    lines.write_text("\n".join([*rounds, rounds[0][:100], '{"neither": "metrics nor logs"}']))
    whole = ("jolokia_bulk_response.json", "librdkafka_stats_producer.json", "filebeat_ecs_dotted.json")
    by_line = ("prometheus_kafka_adapter.ndjson",)
    with pytest.raises(SystemExit):
        main(["diagnose", str(lines), *(str(SAMPLES / name) for name in (*whole, *by_line))])
    output = capsys.readouterr().out
    inputs = " ".join(output.partition("\n\n")[0].split())
    assert "telegraf.json: JSON lines; 4 of 6 lines used; 2026-11-20 18:40:30 to 18:41:00 UTC;" in inputs
    assert "left out: 1 unknown-format" in inputs and "NOT READABLE: truncated-json" in inputs
    heads = {line.partition("  ")[2] for line in output.splitlines() if line[:1].isupper() and "  " in line}
    assert heads == {
        "checkout-producer-2  (telegraf, producer, java)",
        "checkout-producer-2  (formats, producer, java)",
        "audit-producer  (formats, producer, java)",
        "billing-1  (formats, consumer, java)",
        "pricing-py  (formats, producer, librdkafka)",
        "checkout-producer-2  (checkout, producer, java 4.1.0)",
        "billing-1  (checkout, consumer, java 4.1.0)",
        "(process)  (checkout, producer)",
        "checkout-producer-2  (jmx, producer, java)",
        "billing-1  (jmx, consumer, java)",
    }


def test_files_of_bytes_and_of_line_protocol(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pushed = (SAMPLES / "otlp_proto_metrics_otel_javaagent.bin").read_bytes()
    (tmp_path / "push.bin").write_bytes(pushed)
    (tmp_path / "packed.bin.gz").write_bytes(gzip.compress(pushed))
    (tmp_path / "lines.txt").write_bytes((SAMPLES / "telegraf_influx_jolokia2.influx").read_bytes())
    (tmp_path / "other.bin").write_bytes(bytes(range(256)) * 4)
    with pytest.raises(SystemExit):
        main(["diagnose", str(tmp_path)])
    output = capsys.readouterr().out
    inputs = " ".join(output.partition("\n\n")[0].split())
    assert "push.bin: OTLP protobuf; 1 of 1 lines used; 2026-11-20 18:40:30 UTC" in inputs
    assert "packed.bin: OTLP protobuf; 1 of 1 lines used" in inputs
    assert "lines.txt: line protocol; 3 of 4 lines used" in inputs
    assert "other.bin: binary; NOT READABLE: binary, not text" in inputs
    assert "checkout-producer-2  (checkout, producer, java)" in output


@pytest.mark.parametrize(
    ("name", "head", "what"),
    [
        ("orders.bin", b"JAVA PROFILE 1.0.2\0", "a heap dump"),
        ("report", b"%PDF-1.4\n", "a PDF"),
    ],
)
def test_what_cannot_be_read_is_named(
    name: str, head: bytes, what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_bytes(head)
    with pytest.raises(SystemExit) as ended:
        main(["diagnose", str(tmp_path / name)])
    assert ended.value.code == 3
    assert f"{what}; left out" in capsys.readouterr().out


LAYOUTS = {
    "log4j": "2026-02-03 11:41:30,848 ERROR [worker-1] com.acme.Sink - send failed: MESSAGE",
    "spring": "2026-02-03T11:41:30.848Z ERROR 1 --- [svc] [ntainer#0-0-C-1] c.acme.Listener       : failed: MESSAGE",
    "java.util.logging": "Feb 03, 2026 11:41:30 AM com.acme.Sink run\nSEVERE: send failed: MESSAGE",
    "quarkus": "2026-02-03 11:41:30,848 ERROR [com.acm.Sink] (executor-thread-1) send failed: MESSAGE",
    "logstash": '{"@timestamp":"2026-02-03T11:41:30.848Z","@version":"1","level":"ERROR","logger_name":"com.acme.Sink",'
    '"message":"send failed","stack_trace":"java.lang.RuntimeException: MESSAGE\\n\\tat a.Sink.run(Sink.java:42)"}',
    "ecs": '{"@timestamp":"2026-02-03T11:41:30.848Z","log.level":"ERROR","message":"send failed",'
    '"error.type":"x","error.message":"MESSAGE"}',
    "ecs, nested": '{"@timestamp":"2026-02-03T11:41:30.848Z","log":{"level":"error"},"message":"send failed",'
    '"error":{"message":"MESSAGE"}}',
    "log4j2, thrown": '{"timestamp":"2026-02-03T11:41:30.848Z","level":"ERROR","message":"send failed",'
    '"thrown":{"message":"MESSAGE","name":"TimeoutException"}}',
    "python": "ERROR:acme.sink:send failed: MESSAGE",
    "airflow": "[2026-02-03 11:41:30,848] {taskinstance.py:1150} ERROR - send failed: MESSAGE",
    "celery": "[2026-02-03 11:41:30,848: ERROR/MainProcess] send failed: MESSAGE",
    "loguru": "2026-02-03 11:41:30.848 | ERROR    | acme.sink:run:42 - send failed: MESSAGE",
    "structlog": "2026-02-03 11:41:30 [error    ] send failed                    error='MESSAGE' topic=orders",
    "traceback": 'Traceback (most recent call last):\n  File "/app/sink.py", line 42, in run\nRuntimeError: MESSAGE',
    "tracing": "2026-02-03T11:41:30.848254Z ERROR acme::sink: send failed error=MESSAGE",
    "tracing, one blank more": "2026-02-03T11:41:30.848254Z  WARN acme::sink: send failed: MESSAGE",
    "tracing, Debug": '2026-02-03T11:41:30.848254Z ERROR a::sink: failed, result=Err(Source("send failed: MESSAGE"))',
    "env_logger": "[2026-02-03T11:41:30Z ERROR acme::sink] send failed: MESSAGE",
    "go": "2026/02/03 11:41:30 send failed: MESSAGE",
    "panic": "panic: MESSAGE\n\ngoroutine 1 [running]:\nmain.main()\n\t/app/main.go:42 +0x1d",
    "zap": '{"level":"error","ts":1770118890.84,"caller":"sink/sink.go:42","msg":"send failed","error":"MESSAGE"}',
    "zap, verbose": '{"level":"error","ts":1770118890.84,"msg":"send failed","errorVerbose":"MESSAGE","error":"x"}',
    "zap, stack": '{"level":"error","ts":177011889,"msg":"failed","error":"MESSAGE","stacktrace":"a.run\\n\\ta.go:9"}',
    "zap, console": '2026-02-03T11:41:30.848Z\tERROR\tsink/sink.go:42\tsend failed\t{"error": "MESSAGE"}',
    "logrus": 'time="2026-02-03T11:41:30Z" level=error msg="send failed" error="MESSAGE"',
    "slog": 'time=2026-02-03T11:41:30.848Z level=ERROR msg="send failed" err="MESSAGE"',
    "klog": 'E0203 11:41:30.848254       1 sink.go:42] "send failed" err="MESSAGE"',
    "pino": '{"level":50,"time":1770118890848,"pid":1,"err":{"type":"Error","message":"MESSAGE"},"msg":"send failed"}',
    "node": "Error: MESSAGE\n    at Producer.send (/app/node_modules/x/lib/producer.js:10:5)",
    "nest": "[Nest] 1  - 02/03/2026, 11:41:30 AM   ERROR [Sink] send failed: MESSAGE",
    ".NET": "fail: Acme.Sink[0]\n      Send failed: MESSAGE",
    "serilog": '{"@t":"2026-02-03T11:41:30.848Z","@l":"Error","@m":"send failed","@x":"KafkaException: MESSAGE"}',
    "nlog": "2026-02-03 11:41:30.8482|ERROR|Acme.Sink|Send failed: MESSAGE",
    "monolog": '[2026-02-03T11:41:30.848+00:00] app.ERROR: send failed: MESSAGE {"topic":"orders"} []',
    "ruby": "E, [2026-02-03T11:41:30.848254 #1] ERROR -- : send failed: MESSAGE",
    "elixir": '11:41:30.848 [error] send failed: {:error, "MESSAGE"}',
    "syslog": "2026-02-03T11:41:30.848254+00:00 host1 sink[1234]: send failed: MESSAGE",
    "container runtime": "2026-02-03T11:41:30.848254321Z stderr F send failed: MESSAGE",
    "docker": '{"log":"send failed: MESSAGE\\n","stream":"stderr","time":"2026-02-03T11:41:30.848Z"}',
    "lambda": "[ERROR]\t2026-02-03T11:41:30.848Z\t5f1a-22\tsend failed: MESSAGE",
    "glog": "E20260203 11:41:30.848254 1234 sink.cpp:42] send failed: MESSAGE",
    "clojure": '#error {\n :cause "MESSAGE"\n :via\n [{:type x.KafkaException}]}',
    "json, pretty": '{\n  "level": "error",\n  "error": "MESSAGE"\n}',
    "yaml": 'status: failed\nerror: "MESSAGE"',
    "table": "We saw in production:\n\n| time | text |\n|---|---|\n| 11:41:30 | MESSAGE |",
    "list with a fence": "# 문제 상황\n\n- timeout 에러\n\n  - ```\n    KafkaTimeoutError: MESSAGE\n    ```",
}


@pytest.mark.parametrize(
    "message",
    [
        "Expiring 3 record(s) for orders-0:120003 ms has passed since batch creation",
        "Local: Message timed out",
    ],
)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_a_logging_library_writes_around_a_message_hides_nothing(
    layout: str, message: str, tmp_path: Path
) -> None:
    (tmp_path / "app.log").write_text(LAYOUTS[layout].replace("MESSAGE", message) + "\n", encoding="utf-8")
    found = examine([tmp_path / "app.log"], Settings(), io.BytesIO(b""))
    statuses = {verdict.mode: verdict.status for _, verdicts in found.clients for verdict in verdicts}
    assert statuses.get("delivery-stalled") == "suspected"
