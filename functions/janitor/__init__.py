"""Cleans up the lake: abandoned uploads, unreferenced objects, empty partitions."""
