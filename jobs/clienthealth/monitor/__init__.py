"""Judge clients, in plain Python.

The input is a batch of decoded data (`measure/packed.py`) for one bucket. A bucket is a fixed set of processes. The
output is verdicts, incidents, and rows of the history: one row per client and minute.
"""
