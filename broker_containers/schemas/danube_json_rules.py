"""Compares JSON Schemas by the rules of Danube's registry, for teams that rely on its answers.

They look at the properties of the top level alone: their names, whether they are required, and the
word in ``type``. So they accept changes that break readers (another ``const``, a narrower range,
anything nested), and refuse some that break none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from broker_containers.schemas.steps import spend

Document = Mapping[str, Any] | bool


def refusals(writer: Document, reader: Document, *, backward: bool) -> list[str]:
    """Why Danube would refuse ``reader`` for data of ``writer``.

    ``backward``: the reader is the new version. Raises ``TooManySteps``.
    """
    written, read = _properties(writer), _properties(reader)
    needed, wanted = _required(writer), _required(reader)
    found = [f"it has no property {name!r}, which is required" for name in needed - read.keys()]
    if backward:
        newly = wanted & written.keys() - needed
        found += [f"the property {name!r} was optional and is required now" for name in newly]
    for name in written.keys() & read.keys():
        spend()
        before, after = _type(written[name]), _type(read[name])
        if before is not None and after is not None and before != after:
            found.append(f"the type of the property {name!r} differs")
    return sorted(found)


def _properties(schema: Document) -> Mapping[str, Any]:
    found = schema.get("properties") if isinstance(schema, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _required(schema: Document) -> set[str]:
    found = schema.get("required") if isinstance(schema, Mapping) else None
    return {name for name in found if isinstance(name, str)} if isinstance(found, list) else set()


def _type(schema: Any) -> Any:
    return schema.get("type") if isinstance(schema, Mapping) else None
