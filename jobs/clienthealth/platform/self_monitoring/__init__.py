"""The monitor watches itself: its own metrics, and the port that serves them with its probes."""
