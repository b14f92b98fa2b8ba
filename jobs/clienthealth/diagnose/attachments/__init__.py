"""Open the files that people attach to a ticket (archives, mails, pastes), and find lines and thread dumps in them."""
