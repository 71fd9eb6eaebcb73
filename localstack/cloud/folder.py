"""The folder that a cloud on one machine keeps everything in, for one cloud at a time."""

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
_PARTS: Final = ("aws", "cluster")


@contextmanager
def cloud_folder(folder: Path, s3: str, *, lasting: bool) -> Iterator[Path]:
    """The folder, made if it is missing, ours until the end.

    What an S3 that does not last would have kept is gone, so everything else goes too; that is
    done at the next start, of whatever kind. Raises ``Refused`` if the folder is in use, or holds
    something else.
    """
    folder = folder.absolute()
    if folder.exists() and not (folder / _FILE).exists() and any(folder.iterdir()):
        raise Refused(f"{folder} holds something else: choose another folder with --data")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "cloud.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Refused(
                f"another cloud runs in {folder}: stop it, or choose another folder with --data"
            ) from None
        before, lasted = _kind(folder / _FILE, (s3, lasting))
        if before != s3 and lasted:
            raise Refused(
                f"{folder} holds a cloud with --s3 {before}: start it with that, or choose another "
                "folder with --data"
            )
        if not lasted:
            for part in _PARTS:
                shutil.rmtree(folder / part, ignore_errors=True)
        (folder / _FILE).write_text(json.dumps({"s3": s3, "lasting": lasting}))
        yield folder


def _kind(path: Path, new: tuple[str, bool]) -> tuple[str, bool]:
    """Which S3 the folder's cloud had, and whether that lasts; ``new`` if there was none."""
    try:
        found = json.loads(path.read_text())
        return str(found["s3"]), bool(found.get("lasting", found["s3"] != "localstack"))
    except FileNotFoundError:
        return new
    except (ValueError, KeyError, TypeError):
        raise Refused(f"{path} can't be understood: remove its folder") from None
