"""The mark that every upload carries: after a lost answer it tells whether the object is ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sulina.errors import AlreadyExists, Unavailable
from sulina.runtime.seam import Randomness

MARK: Final = "sulina-upload"
"""Its name in the object's metadata."""
MARK_LENGTH: Final = 32


def new_mark(random: Randomness) -> str:
    """One that nobody else has."""
    return f"{random.getrandbits(4 * MARK_LENGTH):0{MARK_LENGTH}x}"


def check_ours(key: str, mark: str, found: Mapping[str, str] | None) -> None:
    """For an upload that found its name taken, or itself gone: whether it made the object.

    ``found`` is the metadata of the object that is there, or None if there is none. Raises
    ``AlreadyExists`` if it is another's, and ``Unavailable`` if there is none.
    """
    if found is None:
        raise Unavailable(
            f"the object {key} was there and is gone, or somebody took back its parts: make it "
            "again"
        )
    if found.get(MARK) != mark:
        raise AlreadyExists(f"there is an object {key} already")
