"""Logs: parse lines and thread dumps of any source, and recognise the log events of Kafka clients in them."""
