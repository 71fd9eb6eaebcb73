"""Log groups and metrics."""
