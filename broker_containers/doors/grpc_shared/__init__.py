"""What the gRPC doors share: listening, calls, callers and their rights, statuses."""
