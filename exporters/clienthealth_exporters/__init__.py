"""What feeds the monitor, and what shows its results. Nothing in here imports pyspark."""
