"""Judge the clients in files attached to a ticket (post-mortem) or in a running process, and report the verdicts."""
