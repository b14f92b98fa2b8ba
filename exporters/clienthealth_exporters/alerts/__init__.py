"""`kafka-health alerts`: write rules for Prometheus (with the URLs in `[links]`) and routes for Alertmanager."""
