"""Where results go: topics of Kafka and the Delta tables of the history."""
