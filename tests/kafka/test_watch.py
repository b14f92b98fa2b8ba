"""Run `kafka-health watch` on real processes that fail."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from clienthealth.platform import jars
from clienthealth.platform.jars import java
from clienthealth_exporters.jvm.exporter import Target
from clienthealth_exporters.jvm.jolokia import Jolokia
from deploy.demo.broker import Broker
from deploy.demo.clients import CLIENTS
from tests.support.demo_world import World
from tests.support.waiting import eventually

pytestmark = pytest.mark.long

SECONDS = 25
PYTHON = """\
import sys, threading
from kafka import KafkaProducer
producer = KafkaProducer(bootstrap_servers=sys.argv[1], client_id="shop-events", max_block_ms=600_000)
for _ in range(2):
    threading.Thread(target=producer.send, args=("misspelt", b"x"), daemon=True).start()
print("up", flush=True)
sys.stdin.read()
"""
HANGS_SOON = {"slow.after": "2", "c.max.poll.interval.ms": "15000", "c.group.id": "bills"}
HANGS_SOON |= {"p.client.id": "bill-writer", "c.client.id": "bill-payer"}
LEFT_SECONDS = 32.0
QUICK = {"p.request.timeout.ms": "1000", "p.delivery.timeout.ms": "2000", "p.max.block.ms": "5000"}


def watching(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "clienthealth.ops.cli", "watch", *arguments, "--for", str(SECONDS), "--json"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(process: subprocess.Popen[str]) -> subprocess.CompletedProcess[str]:
    stdout, stderr = process.communicate()
    return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)


def test_the_stuck_one_is_found_and_the_healthy_ones_are_not_accused(broker: Broker, tmp_path: Path) -> None:
    deadlock = CLIENTS["callback-deadlock"]
    deadlock = replace(deadlock, broker="shared", outage=None, options={**deadlock.options, **QUICK})
    stalled = CLIENTS["consumer-stalled"]
    stalled = replace(stalled, options={**stalled.options, **HANGS_SOON})
    (jar,) = jars.classpath("jolokia")
    with Broker(tmp_path / "broker", heap_mb=256) as failing:
        healthy = CLIENTS["healthy"].start(World(tmp_path / "healthy", broker.bootstrap_servers))
        stuck = deadlock.start(World(tmp_path / "stuck", failing.bootstrap_servers))
        hanging = stalled.start(World(tmp_path / "hanging", broker.bootstrap_servers))
        command = [sys.executable, "-c", PYTHON, broker.bootstrap_servers]
        python = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            eventually(lambda: stuck.counters.get("acknowledged"))
            failing.pause()
            eventually(lambda: stuck.onset_ms)
            failing.resume()
            subprocess.run([java(), "-jar", str(jar), "stop", str(healthy.pid)], check=True, capture_output=True)
            group_options = ["--group", "billing", "--bootstrap", broker.bootstrap_servers]
            group = watching(*group_options)
            assert python.stdout is not None and python.stdout.readline() == "up\n"
            eventually(lambda: hanging.onset_ms and time.time() - hanging.onset_ms / 1000 > LEFT_SECONDS)
            done = ended(watching(f"stuck={stuck.pid}", str(healthy.pid), f"shop={python.pid}", f"bills={hanging.pid}"))
            billing = ended(group)
            unknown_group = ended(watching("--group", "unknown-group", "--bootstrap", broker.bootstrap_servers))
            there_before = Jolokia(Target.parse(stuck.jolokia_urls[0]).url, 5.0)
            assert there_before.thread_dump().partition("\n")[2].startswith("Full thread dump")
            assert healthy.alive
        finally:
            stuck.stop()
            hanging.stop()
            healthy.stop()
            python.kill()
            python.communicate()
    assert done.returncode == 1, done.stderr
    assert "confirmed: stuck/order-publisher: producer-callback-deadlock" in done.stderr
    clients = {row["client"]["client_id"]: row for row in map(json.loads, done.stdout.splitlines())}
    java_clients = {"order-publisher", "order-api", "order-billing", "bill-writer", "bill-payer"}
    assert clients.keys() == {*java_clients, "shop-events"}
    hangs = {verdict["mode"]: verdict for verdict in clients["bill-payer"]["verdicts"]}
    # `bill-payer` sends no requests, so its samples do not show whether the brokers answer. So the failure is only
    # suspected.
    assert hangs["consumer-stalled"]["status"] == "suspected", hangs
    (stands,) = (thread for thread in clients["bill-payer"]["threads"] if thread["name"] == "billing")
    assert stands["frames"][0].startswith("ProduceAndConsume.handleSlowly (") and stands["dumps"] > 1, stands
    blocked = {verdict["mode"]: verdict["status"] for verdict in clients["shop-events"]["verdicts"]}
    assert blocked["send-blocked-on-metadata"] in ("suspected", "confirmed")
    assert clients["order-publisher"]["client"]["service"] == "stuck"
    found = {verdict["mode"]: verdict["status"] for verdict in clients["order-publisher"]["verdicts"]}
    assert found["producer-callback-deadlock"] == "confirmed"
    for name in ("order-api", "order-billing"):
        assert {verdict["status"] for verdict in clients[name]["verdicts"]} <= {"ok", "unknown"}, clients[name]
    judged = {verdict["mode"]: verdict["status"] for verdict in clients["order-api"]["verdicts"]}
    assert judged["producer-callback-deadlock"] == "ok"
    assert (unknown_group.returncode, "there is no consumer group 'unknown-group'" in unknown_group.stderr) == (2, True)
    assert billing.returncode in (0, 3), billing.stderr
    seen = json.loads(billing.stdout)
    assert (seen["group"]["members"], seen["group"]["status"] in ("OK", "IDLE")) == (1, billing.returncode == 0)
    assert {(row["topic"], row["member"]["client_id"]) for row in seen["lag"]} == {("orders", "order-billing")}
