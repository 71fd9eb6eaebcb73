"""A checksum of an object's Parquet footer, in the eight bytes before it.

Parquet readers find the footer from the end of the file and row groups by their positions, so they
ignore these bytes.
"""

from __future__ import annotations

import struct
from typing import Final

from crc32c import crc32c

_LAYOUT: Final = struct.Struct("<4sI")
_MAGIC: Final = b"SLK1"
FOOTER_CHECKSUM_SIZE: Final = _LAYOUT.size


def footer_checksum(footer: bytes) -> bytes:
    """The checksum bytes of a footer, which ends with its length and Parquet's magic."""
    return _LAYOUT.pack(_MAGIC, crc32c(footer))
