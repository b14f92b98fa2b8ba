"""Samples of clients in windows of event time, packed and as numpy views, and the indicators that they give."""
