"""What people attach to a ticket: opened (archives, mails, pastes), and read to lines and dumps that speak of Kafka."""
