"""Discovery and administration over HTTP, for callers outside the VPC."""
