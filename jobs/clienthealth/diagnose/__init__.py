"""Judge the clients in attached files (post-mortem) or in a running process, and report the verdicts."""
