"""Judge clients, in plain Python.

The input is one batch of one bucket (a fixed share of all processes). The output is verdicts, incidents, and rows of
the history, one per client and minute.
"""
