"""Watch a running process without Kafka: read it every second and judge it by the monitor's own step."""
