"""The Danube door: Danube's gRPC protocol, for its stock clients, over the same topics."""
