"""Registers the partition of a new object in the Glue catalog."""

from __future__ import annotations
