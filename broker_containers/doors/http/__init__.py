"""The HTTP door: discovery, administration, health, metrics, and messages in small numbers."""
