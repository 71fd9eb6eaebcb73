"""Finds a cluster's topics again in what storage nodes and the object store hold.

For the day on which the metadata is lost, or is back from a copy that is older than the data.
``survey`` looks at what is there, ``plan`` decides what belongs to which topic, ``rebuild`` makes
it so. Nothing is ever deleted.
"""

from __future__ import annotations
