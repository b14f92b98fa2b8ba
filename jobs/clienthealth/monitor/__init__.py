"""Judge clients, in plain Python.

The input of a step is a batch of decoded data (`measure/packed.py`) for one bucket, a fixed set of processes. Its
output is verdicts, incidents, and rows of the history: one row per client and minute.
"""
