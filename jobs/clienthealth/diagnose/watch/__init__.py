"""Watch a running process without a Kafka cluster: read its state every second, and judge it as the monitor does."""
