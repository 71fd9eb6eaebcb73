"""What the gRPC doors share: callers and their rights, names in requests, opening a port."""
