"""All Spark of the monitor: session, source, the one query, its sinks, and the history that the review reads too.

Knowledge of Kafka clients is plain Python in other packages; this one passes records to it and results from it.
"""
