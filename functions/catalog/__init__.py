"""Registers the partition of a new object in the Glue catalog."""
