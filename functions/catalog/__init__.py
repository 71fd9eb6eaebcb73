"""Registers the partition of a new object in the catalog."""

from __future__ import annotations
