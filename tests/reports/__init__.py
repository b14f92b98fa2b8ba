"""Sentences with which the classifier of `read/logs/reports.py` is trained and tested."""
