"""Objects in TiKV, by transactions over its gRPC protocol (docs/objects.md has the layout)."""
