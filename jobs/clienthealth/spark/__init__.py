"""All code that uses Spark: session, source, the one streaming query and its sinks, and the history (read by reviews).

Knowledge about Kafka clients is in other packages, in plain Python. This package passes the records of a batch to these
packages, and writes the results.
"""
