"""The vocabulary: clients, what they report, and the verdicts on them. Plain values without dependencies."""
