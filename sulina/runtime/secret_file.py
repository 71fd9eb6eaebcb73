"""Secrets that come as text, for code that wants them in files."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def secret_file(name: str, text: str) -> Path:
    """A file with ``text`` that its owner alone can read; it stays until the machine forgets it.

    In a folder of its own below the temporary one, so that nobody can have put something there.
    """
    folder = Path(tempfile.mkdtemp(prefix="sulina-"))
    path = folder / name
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    return path
