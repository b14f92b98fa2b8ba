"""`kafka-health export prometheus`: serve client health as metrics, JSON and a status page."""
