"""Measurements of a cluster of processes: failover, planned moves, idle topics."""
