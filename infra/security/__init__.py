"""Encryption keys, secrets, internal certificates, IAM policies and roles."""

from __future__ import annotations
