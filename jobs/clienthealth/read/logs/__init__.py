"""Logs: the content of lines and thread dumps from any source, and which of them are about a Kafka client."""
