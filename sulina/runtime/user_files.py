"""Files in the user's configuration folder that only the user can read. All calls block."""

from __future__ import annotations

import fcntl
import hashlib
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from sulina.errors import Unavailable

_LOCK_SECONDS: Final = 15.0
_LOCK_PAUSE: Final = 0.05


def login_file(url: str) -> Path:
    """Where the sign-in at the brokers of ``url`` is stored, whether it exists or not."""
    folder = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    digest = hashlib.sha256(url.rstrip("/").encode(errors="backslashreplace")).hexdigest()
    return Path(folder) / "sulina" / "logins" / f"{digest[:32]}.json"


def write_private(path: Path, text: str) -> None:
    """Replace a file as a whole; folders are created. Nobody else can read them."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, made = tempfile.mkstemp(dir=path.parent)  # for its owner alone
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(descriptor)
        os.replace(made, path)
    except BaseException:
        os.unlink(made)
        raise


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep other processes that do the same out. Raises ``Unavailable`` after 15 s."""
    descriptor = os.open(path.with_suffix(".lock"), os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        until = time.monotonic() + _LOCK_SECONDS
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise Unavailable(
                        f"another process renews the sign-in in {path} for too long: try again"
                    ) from None
                time.sleep(_LOCK_PAUSE)
        yield
    finally:
        os.close(descriptor)
