"""Post-mortem of attached files, and diagnosis of a running process: judge the clients and report on them."""
