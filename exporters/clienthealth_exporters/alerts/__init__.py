"""`kafka-health alerts`: rules for Prometheus and routes for Alertmanager, with the addresses of the settings."""
