"""Tells CloudWatch the load that the load manager sees."""

from __future__ import annotations
