"""Frames of Python: kafka-python's under the names of the Java methods that they were ported from.

The judges know the Java client's names. What is shown to people is the place (file, line and the function's own
name), which every frame keeps. confluent-kafka is C: of it a dump shows only who calls it, unless `py-spy --native`
took it.
"""

from __future__ import annotations

import re

from clienthealth.read.logs.dump_formats._threads import Block

_PRODUCER = "org.apache.kafka.clients.producer."
_BATCH_DONE = _PRODUCER + "internals.ProducerBatch.completeFutureAndFireCallbacks"
_PORTED = {
    "kafka.producer.kafka": {
        "_wait_on_metadata": _PRODUCER + "KafkaProducer.waitOnMetadata",
        "send": _PRODUCER + "KafkaProducer.send",
        "flush": _PRODUCER + "KafkaProducer.flush",
        "close": _PRODUCER + "KafkaProducer.close",
    },
    "kafka.producer.future": {
        "wait": _PRODUCER + "internals.ProduceRequestResult.await",
        "get": _PRODUCER + "internals.FutureRecordMetadata.get",
    },
    "kafka.producer.sender": {
        "run": _PRODUCER + "internals.Sender.run",
        "run_once": _PRODUCER + "internals.Sender.runOnce",
    },
    "kafka.producer.producer_batch": {"_complete_future": _BATCH_DONE, "done": _BATCH_DONE},
    "kafka.producer.record_accumulator": {"done": _BATCH_DONE},
    "kafka.producer.buffer": {"allocate": _PRODUCER + "internals.BufferPool.allocate"},
    "kafka.net.selector": {"poll": "org.apache.kafka.common.network.Selector.poll"},
    "kafka.client_async": {"poll": "org.apache.kafka.clients.NetworkClient.poll"},
    "kafka.net.manager": {"poll": "org.apache.kafka.clients.NetworkClient.poll"},
    "kafka.consumer.group": {"poll": "org.apache.kafka.clients.consumer.KafkaConsumer.poll"},
}
_MODULE = re.compile(r"(?:.*[/\\])?((?:kafka|confluent_kafka|aiokafka)[/\\][\w/\\]+)\.py\Z", re.ASCII)


def add_python(block: Block, match: re.Match[str]) -> None:
    """Add a frame (groups `file`, `line`, `method`) to its thread."""
    add_function(block, match["file"], match["method"].strip(), match["line"])


def add_function(block: Block, file: str, function: str, line: object) -> None:
    """Add a function's frame. Its name may begin with its class's, as py-spy writes it."""
    of_client = _MODULE.match(file)
    if of_client:
        module = re.sub(r"[/\\]", ".", of_client[1])
        method = _PORTED.get(module, {}).get(function.rpartition(".")[2]) or f"{module}.{function}"
    else:
        name = re.split(r"[/\\]", file)[-1]
        method = f"{name.removesuffix('.py')}.{function}"
    where = f"{_short(file)}:{line}" if line else _short(file)
    block.add(method, f"{where} {function}")


def _short(file: str) -> str:
    """The path without what every file of an installation has in common."""
    return re.split(r"(?:site|dist)-packages[/\\]", file)[-1]
