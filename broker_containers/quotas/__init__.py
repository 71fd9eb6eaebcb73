"""Quotas of namespaces, principals and brokers: limits in force, use, and enforcement."""
