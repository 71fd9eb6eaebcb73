"""Code shared by several functions."""
