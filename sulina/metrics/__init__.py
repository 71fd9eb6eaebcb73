"""Prometheus' text format, and the metrics that brokers and storage nodes have in common."""
