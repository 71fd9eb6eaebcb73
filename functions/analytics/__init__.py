"""Starts Spark jobs, at most one run of a job at a time."""
