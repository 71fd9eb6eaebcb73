"""Copies of topics: from a topic, or from objects alone, into another topic."""
