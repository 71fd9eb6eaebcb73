"""AWS Lambda functions that run next to a cluster, one folder each; see README.md."""
