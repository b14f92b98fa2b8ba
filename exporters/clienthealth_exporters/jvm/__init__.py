"""`kafka-health export jvm`: read metrics and thread dumps of JVMs through Jolokia, and publish them to Kafka."""
