"""The families of keys, a file each: its paths, its record, its reads and writes."""

from __future__ import annotations
