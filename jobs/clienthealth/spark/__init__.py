"""All Spark of the monitor: session, source, the one query, its sinks, and the history that the review reads too.

What knows about Kafka clients is plain Python elsewhere; here records get to it and results from it.
"""
