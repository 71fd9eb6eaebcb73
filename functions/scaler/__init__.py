"""Publishes the brokers' load to CloudWatch."""
