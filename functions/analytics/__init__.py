"""Starts Spark's jobs, never the same one twice at a time."""

from __future__ import annotations
