"""Logs: turn lines and thread dumps of any source into fields, times and log events of Kafka clients."""
