"""The door for Danube's stock clients: its gRPC protocol, over the same topics as all doors."""
