"""Fetch the jars of the brokers and clients in the demo and the tests.

python -m deploy.demo.jars [SET…]      fetches the named sets (default: all sets of the product and of this module)
"""

from __future__ import annotations

from pathlib import Path

from clienthealth.platform.jars import PINNED, SETS, JarSet, cache, classpath, main, pins

__all__ = ["LOG4J_1", "PINNED", "SETS", "JarSet", "cache", "classpath", "pins"]

LOG4J_1 = ("ch.qos.reload4j:reload4j:1.2.26", "org.slf4j:slf4j-reload4j:1.7.36")
SETS.update(
    {
        "broker": JarSet(("org.apache.kafka:kafka_2.13:4.4.0", *LOG4J_1)),
        # Netty is left out, because only ZooKeeper needs Netty, and these brokers run without ZooKeeper.
        "broker-3.9": JarSet(("org.apache.kafka:kafka_2.13:3.9.2", *LOG4J_1), without=("io.netty:*",)),
        "clients-3.9": JarSet(("org.apache.kafka:kafka-clients:3.9.1", *LOG4J_1)),
        "clients-4.1": JarSet(("org.apache.kafka:kafka-clients:4.1.2", *LOG4J_1)),
        "clients-4.4": JarSet(("org.apache.kafka:kafka-clients:4.4.0", *LOG4J_1)),
        "streams-4.4": JarSet(("org.apache.kafka:kafka-streams:4.4.0", *LOG4J_1), without=("org.rocksdb:*",)),
        "clients-2.3": JarSet(("org.apache.kafka:kafka-clients:2.3.1", *LOG4J_1)),
        "clients-0.11": JarSet(("org.apache.kafka:kafka-clients:0.11.0.3", *LOG4J_1)),
        "legacy": JarSet(
            ("org.apache.kafka:kafka_2.11:0.8.2.1", *LOG4J_1),
            without=("junit:*", "jline:*", "log4j:*", "org.slf4j:slf4j-log4j12", "io.netty:*", "org.jboss.netty:*"),
        ),
    }
)
PINNED.update({name: Path(__file__).with_suffix(".sha256") for name in SETS if name not in PINNED})

if __name__ == "__main__":
    main()
