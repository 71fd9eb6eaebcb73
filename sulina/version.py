"""The version of Sulina, the same for clients, brokers and storage nodes."""

from __future__ import annotations

__version__ = "0.1.0"
