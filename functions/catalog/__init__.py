"""Registers the partition of a new object in the catalogue."""

from __future__ import annotations
