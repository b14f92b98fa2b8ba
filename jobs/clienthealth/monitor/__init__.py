"""Judge Kafka clients, in plain Python. A step processes a batch for one bucket, which is a fixed set of processes."""
