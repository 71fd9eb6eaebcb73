"""Discovery and administration over HTTP, for callers outside of the network."""

from __future__ import annotations
