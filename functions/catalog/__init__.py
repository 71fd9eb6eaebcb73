"""Commits new objects to the Iceberg tables of topics."""
