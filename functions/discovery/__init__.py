"""Discovery and administration over HTTP, for callers outside the VPC."""

from __future__ import annotations
