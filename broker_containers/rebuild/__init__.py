"""Rebuilds a cluster's metadata from what storage nodes and the object store hold.

For metadata that was lost, or restored from a copy that is older than the data. ``survey`` reads
what exists, ``plan`` decides what belongs to which topic, ``rebuild`` carries it out. Nothing is
ever deleted.
"""

from __future__ import annotations
