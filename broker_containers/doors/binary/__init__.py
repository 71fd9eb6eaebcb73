"""The binary door: Sulina's own protocol, for its clients and between brokers."""
