"""`kafka-health export groups`: publish the committed offsets of all consumer groups to Kafka."""
