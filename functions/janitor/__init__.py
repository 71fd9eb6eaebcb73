"""Tidies the lake: uploads that nobody ends, objects that no topic knows, empty partitions."""

from __future__ import annotations
