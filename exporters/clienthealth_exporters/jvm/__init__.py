"""`kafka-health export jvm`: publish metrics and thread dumps of JVMs to Kafka."""
