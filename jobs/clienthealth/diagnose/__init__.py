"""Judge clients from attached files (post-mortem) or in a running process, and report on them."""
