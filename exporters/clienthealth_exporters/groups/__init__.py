"""`kafka-health export groups`: the committed offsets of all consumer groups, to Kafka."""
