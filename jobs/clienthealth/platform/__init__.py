"""What all commands share: Kafka connections, a web server, jars and Java, schema registries, hiding of secrets."""
