"""Readings of clients in windows of event time: the packed form that they are kept in, and the numpy view of them."""
