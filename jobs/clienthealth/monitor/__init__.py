"""Judge Kafka clients, in plain Python. A step judges one batch for one bucket (a fixed set of client processes)."""
