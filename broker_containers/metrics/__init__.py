"""Metrics of a broker in Prometheus' text format."""
