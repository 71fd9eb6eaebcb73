"""The data folder of a local cloud, for one cloud at a time."""

from __future__ import annotations

import fcntl
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from sulina.errors import Refused

_FILE: Final = "cloud.json"
_PARTS: Final = ("aws", "cluster", "pulumi")


@contextmanager
def cloud_folder(folder: Path, s3: str, *, persistent: bool) -> Iterator[Path]:
    """Create and lock the folder.

    If the folder's last emulator did not keep its objects, all other data is deleted as well, since
    it is useless without them. Raises ``Refused`` if the folder is in use or has other contents.
    """
    folder = folder.absolute()
    if folder.exists() and not (folder / _FILE).exists() and any(folder.iterdir()):
        raise Refused(f"{folder} has other contents: choose another folder with --data")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "cloud.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Refused(
                f"another cloud is using {folder}: stop it, or choose another folder with --data"
            ) from None
        before, was_persistent = _previous(folder / _FILE, (s3, persistent))
        if before != s3 and was_persistent:
            raise Refused(
                f"{folder} belongs to a cloud with --s3 {before}: use that option, or choose "
                "another folder with --data"
            )
        if not was_persistent:
            for part in _PARTS:
                shutil.rmtree(folder / part, ignore_errors=True)
        (folder / _FILE).write_text(json.dumps({"s3": s3, "persistent": persistent}))
        yield folder


def _previous(path: Path, new: tuple[str, bool]) -> tuple[str, bool]:
    """The folder's last emulator, and whether it keeps its objects; ``new`` if there is none."""
    try:
        found = json.loads(path.read_text())
        return str(found["s3"]), bool(found.get("persistent", found["s3"] != "localstack"))
    except FileNotFoundError:
        return new
    except (ValueError, KeyError, TypeError):
        raise Refused(f"{path} is not valid: delete its folder") from None
