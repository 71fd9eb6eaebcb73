"""Formats numbers with units."""

from __future__ import annotations


def size_name(size: int) -> str:
    """100 -> "100 B", 1024 -> "1 KiB"."""
    for unit, scale in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= scale and size % scale == 0:
            return f"{size // scale} {unit}"
    return f"{size:,} B"


def count_name(count: float) -> str:
    """1234567 -> "1.23 M", 43210 -> "43.2 k"."""
    for unit, scale in (("M", 1e6), ("k", 1e3)):
        if count >= scale:
            return f"{count / scale:.3g} {unit}"
    return f"{count:.3g}"


def memory_name(size: int) -> str:
    """Whole MiB."""
    return f"{size / (1 << 20):,.0f} MiB"


def times_name(ratio: float | None) -> str:
    """12.34 -> "12 x", 0.5 -> "0.50 x"; empty if there is no ratio."""
    if ratio is None:
        return ""
    return (
        f"{ratio:,.0f} x" if ratio >= 10 else f"{ratio:.1f} x" if ratio >= 1 else f"{ratio:.2f} x"
    )


def parse_size(text: str) -> int:
    """ "100", "1k" or "16KiB" -> bytes. Raises ValueError."""
    lowered = text.strip().lower().removesuffix("ib").removesuffix("b")
    for unit, scale in (("k", 1 << 10), ("m", 1 << 20)):
        if lowered.endswith(unit):
            return int(lowered[:-1]) * scale
    return int(lowered)
