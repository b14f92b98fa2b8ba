"""Kafka Client Health: watches Kafka clients through the metrics and logs that they write to topics."""
