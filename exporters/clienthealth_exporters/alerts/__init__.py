"""`kafka-health alerts`: write rules for Prometheus and routes for Alertmanager."""
