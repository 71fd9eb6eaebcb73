"""Whether a new version is compatible with the existing ones."""

from __future__ import annotations

from collections.abc import Sequence

from broker_containers.schemas.format import Format
from sulina.metadata.keys.schemas import Compatibility, SchemaType

_MOST = 20
"""Maximum number of reasons reported."""


def reasons_against(
    new: Format,
    new_type: SchemaType,
    versions: Sequence[tuple[int, SchemaType, Format]],
    mode: Compatibility,
) -> list[str]:
    """Why ``new`` cannot follow ``versions``, which are in order; empty if it can.

    Modes that are not transitive compare with the last version only.
    """
    if mode is Compatibility.NONE:
        return []
    reasons: list[str] = []
    for number, kind, old in versions if mode.transitive else versions[-1:]:
        if kind is not new_type:
            reasons.append(f"version {number} is {kind.value}, but this is {new_type.value}")
            continue
        if mode.backward:
            found = new.unreadable(old)
            reasons += [f"it cannot read data of version {number}: {why}" for why in found]
        if mode.forward:
            found = old.unreadable(new)
            reasons += [f"version {number} cannot read its data: {why}" for why in found]
    if len(reasons) > _MOST:
        reasons[_MOST:] = [f"and {len(reasons) - _MOST} more reasons"]
    return reasons
