"""The embedded metadata store: one process, in memory or on a folder.

A request passes through ``store`` (the interface), ``committer`` (groups requests and evaluates
them as ``uncommitted`` changes), ``log`` (makes the changes durable; ``codec`` is its format), then
``state`` (what readers see), ``history`` (what watches see) and ``expiry`` (the leases' timers).
"""

from __future__ import annotations

from sulina.metadata.embedded.store import EmbeddedStore

__all__ = ["EmbeddedStore"]
