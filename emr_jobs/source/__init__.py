"""The data source ``sulina``: batch and streaming reads of a topic's objects."""
