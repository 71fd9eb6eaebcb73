"""Grafana dashboards and Prometheus rules for a cluster; ``python -m monitoring`` writes them."""
