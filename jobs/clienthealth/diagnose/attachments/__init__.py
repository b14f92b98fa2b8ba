"""Open what people attach to a ticket (archives, mails, pastes), and read its lines and dumps about Kafka."""
