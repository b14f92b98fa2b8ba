"""`kafka-health export prometheus`: serve the topic `client-health` as metrics, as JSON and as a status page."""
