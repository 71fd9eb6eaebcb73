"""Publishes the brokers' load to CloudWatch."""

from __future__ import annotations
