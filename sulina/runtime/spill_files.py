"""Files for work that does not fit into memory. They have no name, so none outlives the process."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import IO


class SpillFiles:
    """Numbered files in a folder. Calls block. ``close`` frees the space."""

    def __init__(self, folder: Path | None = None) -> None:
        """``folder`` must exist; the system's folder for temporary files if it is None."""
        self._folder = folder
        self._files: dict[int, IO[bytes]] = {}

    def append(self, number: int, data: bytes) -> None:
        """Add bytes to a file. Raises ``OSError``, for example if the disk is full."""
        file = self._files.get(number)
        if file is None:
            # Open until it is removed.
            file = self._files[number] = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115
        file.write(data)

    def read(self, number: int, start: int, length: int) -> bytes:
        """Bytes of a file from ``start`` on; fewer than ``length`` only at its end."""
        file = self._files.get(number)
        if file is None:
            return b""
        file.seek(start)
        data = file.read(length)
        file.seek(0, 2)
        return data

    def remove(self, number: int) -> None:
        """Delete a file, if it exists."""
        file = self._files.pop(number, None)
        if file is not None:
            file.close()
