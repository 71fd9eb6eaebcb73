"""The embedded metadata store: one process, in memory or on a folder.

A request goes one way: ``store`` (the interface) -> ``committer`` (groups requests, evaluates them
on a ``draft``) -> ``log`` (makes their changes durable; ``codec`` is its format) -> ``state`` (what
readers see), ``history`` (what watches see) and ``expiry`` (the leases' time).
"""

from __future__ import annotations

from sulina.metadata.embedded.store import EmbeddedStore

__all__ = ["EmbeddedStore"]
