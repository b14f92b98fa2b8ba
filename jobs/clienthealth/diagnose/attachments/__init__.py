"""Open what people attach to a ticket (archives, mails, pastes), and find lines and dumps about Kafka in it."""
