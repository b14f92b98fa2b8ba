"""The four measurements: buffer exhaustion, callback latency, per-topic queue saturation and lag."""
