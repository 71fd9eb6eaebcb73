"""Cleans up the lake: abandoned uploads and unreferenced objects."""
