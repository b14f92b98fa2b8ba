"""All code that uses Spark: session, source, the one streaming query and its sinks, and the history (read by reviews).
"""
