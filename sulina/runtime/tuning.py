"""Settings of the process itself that suit a server which moves frames."""

from __future__ import annotations

import contextlib
import ctypes
import gc

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_LARGEST_FRAMES = 32 << 20
_KEEP = 512 << 20


def tune_for_frames() -> None:
    """Keep freed memory for the next frames, and collect garbage seldom.

    A frame is a few hundred KiB that live for a moment: given back to the system each time, every
    one of its pages would be cleared anew. What the start made lives for ever and need not be
    looked at by the garbage collector; frames have no cycles.
    """
    # Only glibc has mallopt; elsewhere the defaults stay.
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, _LARGEST_FRAMES)
        mallopt(_M_TRIM_THRESHOLD, _KEEP)
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 50, 100)
