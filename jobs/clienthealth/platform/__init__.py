"""What all commands share: Kafka connections, a web server, jars and Java, the schema registry, hiding of secrets."""
