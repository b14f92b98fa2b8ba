"""The judgement of clients, in plain Python: one batch of one bucket in; verdicts, incidents and minutes out."""
