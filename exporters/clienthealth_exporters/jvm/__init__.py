"""`kafka-health export jvm`: metrics and thread dumps of JVMs, read through Jolokia, to Kafka."""
