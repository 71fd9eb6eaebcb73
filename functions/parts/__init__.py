"""What several functions share."""

from __future__ import annotations
