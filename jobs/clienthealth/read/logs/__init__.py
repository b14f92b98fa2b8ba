"""Logs: lines and thread dumps from any source as fields, times and log events of Kafka clients."""
