"""Judge clients, in plain Python.

The input is one batch for one bucket, which is a fixed set of processes (`measure/packed.py`). The output is verdicts,
incidents, and rows of the history: one row per client and minute.
"""
