"""What all programs stand on: Kafka connections, a web server, jars and Java, the schema registry, secrets kept."""
