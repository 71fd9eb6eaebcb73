"""Cleans up the lake: abandoned uploads, unreferenced objects, empty partitions."""

from __future__ import annotations
