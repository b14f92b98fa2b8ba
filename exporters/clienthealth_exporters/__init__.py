"""The exporters: programs that feed the monitor and show its results. No module here imports pyspark."""
