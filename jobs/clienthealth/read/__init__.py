"""Convert data from outside (wire formats, log lines, thread dumps, MBeans) to the monitor's own types."""
