"""Compression of a frame's columns: none, lz4 or zstd, with bounded output."""

from __future__ import annotations

from enum import IntEnum

from sulina.errors import CorruptFrame, Refused


class Compression(IntEnum):
    """How a frame's columns are stored; the value is part of the frame's flags."""

    NONE = 0
    LZ4 = 1
    ZSTD = 2


_ZSTD_LEVEL = 1  # higher levels cost more time than they save bytes on message data


def _missing(name: str, package: str) -> Refused:
    return Refused(
        f"{name} compression needs the package {package}: pip install 'sulina[compression]'"
    )


def compress(method: Compression, raw: bytes) -> bytes:
    """``raw`` compressed. Raises ``Refused`` if the method's package is not installed."""
    if method is Compression.LZ4:
        try:
            import lz4.block
        except ImportError:
            raise _missing("lz4", "lz4") from None
        packed: bytes = lz4.block.compress(raw, store_size=False)
        return packed
    if method is Compression.ZSTD:
        try:
            import zstandard
        except ImportError:
            raise _missing("zstd", "zstandard") from None
        return zstandard.ZstdCompressor(level=_ZSTD_LEVEL).compress(raw)
    return raw


def decompress(method: Compression, data: memoryview, raw_length: int) -> bytes:
    """The original bytes, exactly ``raw_length`` of them.

    Never allocates more than ``raw_length`` bytes, whatever length the input states. Raises
    ``CorruptFrame`` if the input is not valid compressed data of that length.
    """
    if method is Compression.LZ4:
        try:
            import lz4.block
        except ImportError:
            raise _missing("lz4", "lz4") from None
        try:
            raw: bytes = lz4.block.decompress(data, uncompressed_size=raw_length)
        except (lz4.block.LZ4BlockError, ValueError, MemoryError, OverflowError):
            raise CorruptFrame("the frame's lz4 data cannot be decompressed") from None
    elif method is Compression.ZSTD:
        try:
            import zstandard
        except ImportError:
            raise _missing("zstd", "zstandard") from None
        try:
            # The library allocates the length that the stream states: check it first.
            if zstandard.frame_content_size(data) != raw_length:
                raise CorruptFrame("the length in the frame's zstd data contradicts its header")
            raw = zstandard.ZstdDecompressor().decompress(data, allow_extra_data=False)
        except zstandard.ZstdError:
            raise CorruptFrame("the frame's zstd data cannot be decompressed") from None
    else:
        raw = bytes(data)
    if len(raw) != raw_length:
        raise CorruptFrame("the frame's columns do not decompress to the length in its header")
    return raw
