"""Modules that several commands use: for Kafka connections, web pages, jars and Java, schema registries, secrets."""
