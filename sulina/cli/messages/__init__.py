"""Commands that publish and read messages."""
