"""What a broker measures of itself, in Prometheus' text format."""
