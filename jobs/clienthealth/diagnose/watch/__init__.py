"""Watch a running process: read its state every second, and judge it as the monitor does. No cluster is needed."""
