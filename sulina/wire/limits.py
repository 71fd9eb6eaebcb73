"""Sizes of frames, for modules that neither read nor write one.

``header`` needs more packages, which take a while to import.
"""

from __future__ import annotations

from typing import Final

HEADER_SIZE: Final = 88
MAX_RECORDS: Final = 1 << 16
"""Maximum number of records in a frame, so that a selection has at most 8 KiB."""
MAX_BODY: Final = 64 << 20
"""Maximum size of a frame's body in bytes, both stored and decompressed."""
