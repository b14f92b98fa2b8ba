"""`kafka-health export prometheus`: the topic `client-health` for Prometheus, as JSON and as a status page."""
