"""Checks before anything is created: Docker, credentials, the account, and its quotas."""
