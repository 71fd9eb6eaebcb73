"""Encryption keys, secrets, internal certificates, IAM policies and roles."""
