"""What the gRPC doors share: callers, their rights, statuses, names in requests, opening a port."""
