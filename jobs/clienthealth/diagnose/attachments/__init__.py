"""Open the files that people attach to a ticket, and find log lines, thread dumps and metrics in them."""
