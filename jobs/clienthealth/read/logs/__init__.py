"""Logs: what lines and thread dumps say, whatever carries them, and which of them speak of a Kafka client."""
