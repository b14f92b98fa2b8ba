"""The monitor's Spark code: session, source, the streaming query and its sinks, and the history (read by reviews)."""
