"""Samples of clients in windows of event time (packed as bytes, or as numpy arrays), and the indicators of windows."""
