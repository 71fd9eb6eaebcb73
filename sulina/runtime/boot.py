"""Which boot of the system this is."""

from __future__ import annotations

from pathlib import Path


def boot_id() -> str:
    """A text that is another one after each boot; empty where the system tells none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
