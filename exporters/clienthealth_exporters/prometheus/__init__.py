"""`kafka-health export prometheus`: serve the topic `client-health` to Prometheus, as JSON and as a status page."""
