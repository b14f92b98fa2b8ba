"""Is my client stuck now? A process is read each second and judged by the monitor's own step, without Kafka."""
