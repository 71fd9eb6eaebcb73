"""What a process asks of its machine besides clock, disk and network."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import secrets
import socket
import tempfile
from itertools import islice
from pathlib import Path

from sulina.errors import Refused

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_LARGEST_FRAMES = 32 << 20
_KEEP = 512 << 20
_OTHERS = 0o077
"""What the group and other users may do, in a file's mode."""
_MOST_FILES = 10_000


def boot_id() -> str:
    """An id that changes with each boot; empty where the system provides none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def own_name() -> str:
    """The host name; in a container, that of the container."""
    return socket.gethostname()


def own_address() -> str:
    """The IP address of the host name. Raises ``Refused`` if it has none."""
    name = own_name()
    try:
        return socket.gethostbyname(name)
    except OSError as error:
        raise Refused(
            f"the name of this machine, {name}, has no address ({error.strerror or error}): "
            "specify the address to use"
        ) from None


def secret_text(size: int) -> str:
    """``size`` unpredictable bytes in hexadecimal, for tokens."""
    return secrets.token_hex(size)


def secret_file(name: str, text: str) -> Path:
    """Write ``text`` to a new file that only its owner can read, for libraries that need files.

    The file is in a new private folder below the temporary one, and is not deleted.
    """
    path = Path(tempfile.mkdtemp(prefix="sulina-")) / name
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    return path


def keep_files_private() -> None:
    """Files and folders that this process and its children create are for their owner alone."""
    os.umask(0o077)


def warning_of_readable(folder: Path) -> str | None:
    """Which files other users could read or change, and how to prevent it; None if there are none.

    Looks at the folder and at most ``_MOST_FILES`` files below it. Blocks briefly.
    """
    if not folder.is_dir():
        return None
    if not folder.stat().st_mode & _OTHERS:
        return None  # nobody else can reach what is below it
    found = [path for path in (folder, *islice(folder.rglob("*"), _MOST_FILES)) if _is_loose(path)]
    others = f" and {len(found) - 1} more files or folders" if found[1:] else ""
    return (
        f"other users can read or change {found[0]}{others}: run `chmod -R go= {folder.absolute()}`"
    )


def _is_loose(path: Path) -> bool:
    try:
        return bool(path.lstat().st_mode & _OTHERS) and not path.is_symlink()
    except OSError:
        return False  # it was deleted meanwhile


def append_durably(path: Path, data: bytes) -> None:
    """Append to a file, which only its owner can read if it is new. Blocks until it is durable."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(descriptor)


def tune_for_frames() -> None:
    """Keep freed memory for later frames, and collect garbage rarely.

    A frame is a few hundred KiB that live briefly: if they were returned to the system each time,
    the kernel would clear every page again. Objects created at startup live as long as the process,
    so the garbage collector need not scan them; frames have no cycles.
    """
    # Only glibc has mallopt; elsewhere the defaults stay.
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, _LARGEST_FRAMES)
        mallopt(_M_TRIM_THRESHOLD, _KEEP)
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 50, 100)
