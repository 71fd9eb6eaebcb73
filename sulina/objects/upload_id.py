"""A unique id in each upload's metadata tells, after a lost answer, whose the object is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sulina.errors import AlreadyExists, Unavailable
from sulina.runtime.seam import Randomness

UPLOAD_ID: Final = "sulina-upload"
"""The name of the id in the object's metadata."""
UPLOAD_ID_LENGTH: Final = 32


def new_upload_id(random: Randomness) -> str:
    """A random id, unique for all practical purposes."""
    return f"{random.getrandbits(4 * UPLOAD_ID_LENGTH):0{UPLOAD_ID_LENGTH}x}"


def check_ours(key: str, upload_id: str, found: Mapping[str, str] | None) -> None:
    """Find out whether an upload whose name is taken, or whose parts are gone, made the object.

    ``found`` is the metadata of the existing object, or None if there is none. Raises
    ``AlreadyExists`` if another upload made it, and ``Unavailable`` if it does not exist.
    """
    if found is None:
        raise Unavailable(
            f"the object {key} was deleted, or its upload was aborted, meanwhile: upload it again"
        )
    if found.get(UPLOAD_ID) != upload_id:
        raise AlreadyExists(f"the object {key} already exists")
