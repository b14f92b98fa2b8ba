"""All code that uses Spark: session, source, the streaming query and its sinks, and the history (read by reviews)."""
