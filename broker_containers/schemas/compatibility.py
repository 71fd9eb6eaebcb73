"""Whether a new version is compatible with the existing ones."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from broker_containers.schemas.danube_json_rules import refusals
from broker_containers.schemas.format import Format
from sulina.metadata.keys.schemas import Compatibility, SchemaType


class JsonRules(StrEnum):
    """How versions of a JSON Schema are compared."""

    EXACT = "exact"
    """By the data that they allow: compatible is what provably can be read."""
    DANUBE = "danube"
    """By the rules of Danube's registry, which look at the properties of the top level."""


_MOST = 20
"""Maximum number of reasons reported."""


def reasons_against(
    new: Format,
    new_type: SchemaType,
    versions: Sequence[tuple[int, SchemaType, Format]],
    mode: Compatibility,
    rules: JsonRules = JsonRules.EXACT,
) -> list[str]:
    """Why ``new`` cannot follow ``versions``, which are in order; empty if it can.

    Modes that are not transitive compare with the last version only. ``rules`` are those for JSON
    Schema; the other languages have one set of rules each.
    """
    if mode is Compatibility.NONE:
        return []
    reasons: list[str] = []
    for number, kind, old in versions if mode.transitive else versions[-1:]:
        if kind is not new_type:
            reasons.append(f"version {number} is {kind.value}, but this is {new_type.value}")
            continue
        if mode.backward:
            found = _unreadable(old, new, kind, rules, backward=True)
            reasons += [f"it cannot read data of version {number}: {why}" for why in found]
        if mode.forward:
            found = _unreadable(new, old, kind, rules, backward=False)
            reasons += [f"version {number} cannot read its data: {why}" for why in found]
    if len(reasons) > _MOST:
        reasons[_MOST:] = [f"and {len(reasons) - _MOST} more reasons"]
    return reasons


def _unreadable(
    writer: Format, reader: Format, kind: SchemaType, rules: JsonRules, *, backward: bool
) -> list[str]:
    if kind is SchemaType.JSON_SCHEMA and rules is JsonRules.DANUBE:
        from broker_containers.schemas.json_schema import JsonSchema  # slow to load, and loaded

        assert isinstance(writer, JsonSchema) and isinstance(reader, JsonSchema)
        return refusals(writer.parts.root, reader.parts.root, backward=backward)
    return reader.unreadable(writer)
