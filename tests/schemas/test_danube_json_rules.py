"""The rules for JSON Schema, ours and Danube's: what docs/schemas.md says in its table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from broker_containers.assembly.running import DoorSettings
from broker_containers.assembly.single import run_embedded
from broker_containers.doors.listen import Listen
from broker_containers.schemas.compatibility import JsonRules
from broker_containers.schemas.registry import SchemaRegistry
from sulina.errors import Refused
from sulina.metadata.keys.schemas import Compatibility


def shape(*required: str, **properties: Any) -> bytes:
    return json.dumps(
        {"type": "object", "properties": properties, "required": list(required)}
    ).encode()


TEXT, WHOLE = {"type": "string"}, {"type": "integer"}
ONE, TWO = {"type": "integer", "const": 1}, {"type": "integer", "const": 2}
NAME = shape("name", name=TEXT)
BACK, FORTH = Compatibility.BACKWARD, Compatibility.FORWARD
CHANGES = {
    "an optional property added": (NAME, shape("name", name=TEXT, mail=TEXT), BACK, True, True),
    "an optional property removed": (shape("name", name=TEXT, mail=TEXT), NAME, FORTH, True, True),
    "a required property removed": (
        *(shape("name", "age", name=TEXT, age=WHOLE), NAME, BACK, True, False),
    ),
    "a required property added": (
        *(NAME, shape("name", "mail", name=TEXT, mail=TEXT), FORTH, True, False),
    ),
    "a new required property": (
        *(NAME, shape("name", "mail", name=TEXT, mail=TEXT), BACK, False, True),
    ),
    "an optional property made required": (
        *(shape("name", name=TEXT, age=WHOLE), shape("name", "age", name=TEXT, age=WHOLE)),
        *(BACK, False, False),
    ),
    "a required property made optional": (
        *(shape("name", "age", name=TEXT, age=WHOLE), shape("name", name=TEXT, age=WHOLE)),
        *(FORTH, False, True),
    ),
    "another type": (shape(v=TEXT), shape(v=WHOLE), BACK, False, False),
    "a wider type": (shape(v=WHOLE), shape(v={"type": "number"}), BACK, True, False),
    "another const": (shape(v=ONE), shape(v=TWO), BACK, False, True),
    "a narrower range": (shape(v=WHOLE), shape(v={**WHOLE, "minimum": 9}), BACK, False, True),
    "a change within a property": (
        *(shape(v={"properties": {"a": TEXT}}), shape(v={"properties": {"a": WHOLE}})),
        *(BACK, False, True),
    ),
}


@pytest.mark.parametrize("rules", JsonRules)
@pytest.mark.parametrize("change", CHANGES)
async def test_a_change_is_judged_by_the_rules_in_force(
    registry: SchemaRegistry, change: str, rules: JsonRules
) -> None:
    old, new, mode, exact, danube = CHANGES[change]
    registry.json_rules = lambda: rules
    await registry.register("subject", "json", old)
    reasons = await registry.check("subject", "json", new, mode)
    assert (not reasons) is (exact if rules is JsonRules.EXACT else danube), reasons


async def test_danubes_rules_are_symmetric_in_full_and_apply_to_each_version_if_transitive(
    registry: SchemaRegistry,
) -> None:
    registry.json_rules = lambda: JsonRules.DANUBE
    first = shape("id", "name", id=WHOLE, name=TEXT)
    await registry.register("subject", "json", first)
    added = shape("id", "name", id=WHOLE, name=TEXT, about=TEXT)
    assert not await registry.check("subject", "json", added, Compatibility.FULL)
    removed = shape("id", id=WHOLE)
    assert await registry.check("subject", "json", removed, Compatibility.FULL) == [
        "it cannot read data of version 1: it has no property 'name', which is required"
    ]
    await registry.set_compatibility("subject", Compatibility.NONE)
    await registry.register("subject", "json", removed)
    assert not await registry.check("subject", "json", removed, BACK)
    assert await registry.check("subject", "json", removed, Compatibility.BACKWARD_TRANSITIVE)


async def test_a_schema_without_properties_has_none_to_compare(registry: SchemaRegistry) -> None:
    registry.json_rules = lambda: JsonRules.DANUBE
    await registry.register("subject", "json", b"true")
    assert not await registry.check("subject", "json", b'{"required": ["a"]}', BACK)
    assert await registry.check("subject", "json", b'{"required": ["a"]}', FORTH)


async def test_a_setting_of_the_cluster_chooses_the_rules(tmp_path: Path) -> None:
    first, second = (shape(v=each).decode() for each in (ONE, TWO))
    async with run_embedded(tmp_path, DoorSettings(Listen(port=0))) as server:
        admin = server.services.operations.client
        await admin.schemas.register("s", "json", definition=first)
        with pytest.raises(Refused, match="not compatible"):
            await admin.schemas.register("s", "json", definition=second)
        await admin.config.set("broker.json_schema_rules", "danube")
        assert (await admin.schemas.register("s", "json", definition=second)).version == 2
