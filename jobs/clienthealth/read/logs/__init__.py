"""Logs: the content of lines and thread dumps in any carrier, and which of them are about a Kafka client."""
