"""Judge Kafka clients, in plain Python.

One step processes a batch of decoded data (`measure/packed.py`) for one bucket, which is a fixed set of processes. Its
results are verdicts, incidents, and rows of the history.
"""
