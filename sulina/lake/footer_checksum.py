"""The seal: a checksum of an object's footer, in eight bytes that stand right before it.

Parquet readers find the footer from the end of the file and row groups by their positions, so none
of them looks at these bytes.
"""

from __future__ import annotations

import struct
from typing import Final

from crc32c import crc32c

_LAYOUT: Final = struct.Struct("<4sI")
_MAGIC: Final = b"SLK1"
FOOTER_CHECKSUM_SIZE: Final = _LAYOUT.size


def footer_checksum(footer: bytes) -> bytes:
    """The seal of a footer, which ends with its length and Parquet's magic."""
    return _LAYOUT.pack(_MAGIC, crc32c(footer))
