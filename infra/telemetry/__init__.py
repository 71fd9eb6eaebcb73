"""Log groups and metrics."""

from __future__ import annotations
