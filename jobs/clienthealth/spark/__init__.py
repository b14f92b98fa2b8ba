"""All code that uses Spark: session, source, the one streaming query, its sinks, and the history that reviews read too.

Knowledge about Kafka clients is in other packages, in plain Python. This package passes them the records of a batch and
writes their results.
"""
