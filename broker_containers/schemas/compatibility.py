"""Whether a new version may follow the versions that are there."""

from __future__ import annotations

from collections.abc import Sequence

from broker_containers.schemas.format import Format
from sulina.metadata.keys.schemas import Compatibility, SchemaType

_MOST = 20
"""Sentences that are told at most."""


def reasons_against(
    new: Format,
    new_type: SchemaType,
    versions: Sequence[tuple[int, SchemaType, Format]],
    mode: Compatibility,
) -> list[str]:
    """Why ``new`` can't come after ``versions``, which are in order; nothing if it can.

    Modes that are not transitive look at the last one alone.
    """
    if mode is Compatibility.NONE:
        return []
    reasons: list[str] = []
    for number, kind, old in versions if mode.transitive else versions[-1:]:
        if kind is not new_type:
            reasons.append(f"version {number} is {kind.value} and this is {new_type.value}")
            continue
        if mode.backward:
            found = new.unreadable(old)
            reasons += [f"it can't read data of version {number}: {why}" for why in found]
        if mode.forward:
            found = old.unreadable(new)
            reasons += [f"version {number} can't read its data: {why}" for why in found]
    if len(reasons) > _MOST:
        reasons[_MOST:] = [f"and {len(reasons) - _MOST} more reasons"]
    return reasons
