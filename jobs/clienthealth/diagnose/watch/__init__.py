"""Is my client stuck now? Read a process every second and judge it by the monitor's own step, without Kafka."""
