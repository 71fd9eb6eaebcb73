"""Schemas cannot hurt: patterns run in linear time, steps are counted, and work can be ended."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections import Counter
from typing import Any

import pytest

from broker_containers.schemas import steps
from broker_containers.schemas.avro import Avro
from broker_containers.schemas.checks import SchemaChecks
from broker_containers.schemas.errors import InvalidPayload, InvalidSchema
from broker_containers.schemas.json_schema import JsonSchema
from broker_containers.schemas.registry import SchemaRegistry
from sulina.errors import SulinaError
from sulina.metadata.keys import record, schemas, topic_lifecycle
from sulina.metadata.keys.schemas import TopicSchemaRecord, Validation, VersionRecord
from sulina.metadata.keys.topics import TopicRecord
from sulina.metadata.store import MetadataStore, Put
from sulina.names import TopicName
from sulina.runtime.threads import ThreadRunner
from tests.schemas.json_shapes import text

EVIL = "^(([a-z])+.)+[A-Z]([a-z])+$"
LETTERS = "a" * 40
TOPIC = TopicName("default", "orders")


def doubling(levels: int) -> dict[str, Any]:
    """A schema that applies its last definition 2 ** levels times."""
    defs: dict[str, Any] = {
        f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}, {"$ref": f"#/$defs/d{n + 1}"}]}
        for n in range(levels)
    }
    return {"$ref": "#/$defs/d0", "$defs": {**defs, f"d{levels}": {"minimum": 0}}}


class Orders:
    """An open topic."""

    name = TOPIC

    def __init__(self) -> None:
        self.failed: Counter[type[SulinaError]] = Counter()


# ---- patterns ----


def test_a_pattern_takes_linear_time_on_any_payload() -> None:
    schema = JsonSchema(text({"pattern": EVIL}))
    with pytest.raises(InvalidPayload, match="does not match the pattern"):
        schema.check(json.dumps(LETTERS).encode())


async def test_names_of_a_stored_schema_are_compared_with_patterns_in_linear_time(
    registry: SchemaRegistry,
) -> None:
    stored = {"type": "object", "properties": {LETTERS: {"type": "string"}}}
    await registry.register("orders", "json", text(stored))
    asked = {"type": "object", "patternProperties": {EVIL: {"type": "integer"}}}
    assert await registry.check("orders", "json", text(asked)) == []


@pytest.mark.parametrize("pattern", [r"(a)\1", "(?=a)b", "(?<!a)b", "a{2000}", "("])
async def test_patterns_that_re2_cannot_run_are_refused_when_registered(
    registry: SchemaRegistry, pattern: str
) -> None:
    with pytest.raises(InvalidSchema, match=r"cannot be run .*: brokers run patterns on RE2"):
        await registry.register("orders", "json", text({"pattern": pattern}))
    await registry.register("orders", "json", text({"type": "string"}))
    reasons = await registry.check("orders", "json", text({"patternProperties": {pattern: {}}}))
    assert len(reasons) == 1 and "cannot be run" in reasons[0]


async def test_a_schema_of_earlier_with_such_a_pattern_is_used_and_says_what_is_not_checked(
    registry: SchemaRegistry, store: MetadataStore, caplog: pytest.LogCaptureFixture
) -> None:
    earlier = {"type": "object", "properties": {"a": {"type": "string", "pattern": "(?=x)"}}}
    made = await registry.register("orders", "json", text({"type": "object"}))
    await _overwrite(store, earlier)
    await topic_lifecycle.create(store, TOPIC, TopicRecord())
    await registry.topics.configure(TOPIC, TopicSchemaRecord("orders", Validation.ENFORCE, True))
    async with SchemaChecks(registry, store) as checks:
        check = checks.of(Orders())
        await check.check(made.id, 1, b'{"a": "anything"}')
        with pytest.raises(InvalidPayload, match="not of type string"):
            await check.check(made.id, 1, b'{"a": 5}')
    assert "schema 'orders', version 1: the pattern '(?=x)' cannot be run" in caplog.text
    again = await registry.register("orders", "json", text(earlier))
    assert (again.version, again.new) == (1, False), "it is registered already"


async def _overwrite(store: MetadataStore, definition: Any) -> None:
    """Change version 1 of orders to what an earlier broker accepted."""
    key = schemas.version_key("orders", 1)
    item = await store.get(key)
    assert item is not None
    before = record.decode(VersionRecord, item)
    made = JsonSchema(text(definition))
    after = VersionRecord(
        1, before.type, made.fingerprint, schemas.to_text(text(definition)), created_us=1
    )
    subject = await store.get(schemas.subject_key("orders"))
    assert subject is not None
    changed = subject.value.replace(before.fingerprint.encode(), made.fingerprint.encode())
    await store.txn((), [Put(key, record.encode(after)), Put(subject.key, changed)])


# ---- steps ----


def _raises_too_many(work: Any) -> None:
    with steps.at_most(steps.payload_steps(100)), pytest.raises(steps.TooManySteps):
        work()


def test_references_that_double_run_out_of_steps() -> None:
    schema = JsonSchema(text(doubling(60)))
    _raises_too_many(lambda: schema.check(b"5"))
    with steps.at_most(steps.compare_steps(1)):
        other = JsonSchema(text({**doubling(60), "title": "another"}))
        assert "too complex to compare" in schema.unreadable(other)[0]


@pytest.mark.parametrize(
    ("schema", "payload"),
    [
        ({"items": {"allOf": [{"minimum": 0}] * 9_000}}, [1] * 9_000),
        ({"allOf": [{"items": {}}] * 9_000}, [1] * 9_000),
        ({"allOf": [{"uniqueItems": True}] * 9_000}, [{"a": n} for n in range(5_000)]),
        ({"unevaluatedProperties": False, **doubling(60)}, {"a": 1}),
        ({"items": {"required": [f"p{n}" for n in range(9_000)]}}, [{"p0": 1}] * 5_000),
    ],
)
def test_large_schemas_on_large_payloads_end(schema: Any, payload: Any) -> None:
    made, written = JsonSchema(text(schema)), json.dumps(payload).encode()
    try:
        with steps.at_most(steps.payload_steps(len(written))):
            made.check(written)
    except (steps.TooManySteps, InvalidPayload):
        return


def test_an_avro_datum_without_bytes_runs_out_of_steps() -> None:
    kinds: list[Any] = [{"type": "record", "name": "R0", "fields": []}]
    for n in range(40):
        twice = [{"name": name, "type": f"R{n}"} for name in "ab"]
        kinds.append({"type": "record", "name": f"R{n + 1}", "fields": twice})
    fields = [{"name": f"f{n}", "type": kind} for n, kind in enumerate(kinds)]
    schema = Avro(text({"type": "record", "name": "All", "fields": fields}))
    _raises_too_many(lambda: schema.check(b""))


def test_avro_enums_and_unions_are_compared_in_few_steps() -> None:
    names = [f"s{n}" for n in range(20_000)]
    one = Avro(text({"type": "enum", "name": "e", "symbols": names}))
    other = Avro(text({"type": "enum", "name": "e", "symbols": [f"t{n}" for n in range(20_000)]}))
    with steps.at_most(steps.compare_steps(1)):
        assert "lacks s0" in other.unreadable(one)[0]


async def test_a_message_that_takes_too_many_steps_is_refused_off_the_event_loop(
    registry: SchemaRegistry, store: MetadataStore
) -> None:
    made = await registry.register("orders", "json", text(doubling(60)))
    await topic_lifecycle.create(store, TOPIC, TopicRecord())
    await registry.topics.configure(TOPIC, TopicSchemaRecord("orders", Validation.ENFORCE, True))
    async with SchemaChecks(registry, store, ThreadRunner()) as checks:
        with pytest.raises(InvalidPayload, match="its schema is too complex"):
            await checks.of(Orders()).check(made.id, 1, b"5")


# ---- work that can be ended ----


async def test_work_ends_when_its_caller_is_cancelled() -> None:
    runner, ended = ThreadRunner(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def forever() -> None:
        try:
            while True:
                steps.spend()
                time.sleep(0.001)
        finally:
            loop.call_soon_threadsafe(ended.set)

    caller = asyncio.create_task(steps.run_bounded(runner, sys.maxsize, forever))
    await asyncio.sleep(0.05)
    caller.cancel()
    await ended.wait()
    assert await runner(lambda: 5) == 5, "the next call has its turn"


def test_the_process_exits_while_work_runs_in_a_thread() -> None:
    program = """
import asyncio, time
from sulina.runtime.threads import ThreadRunner

async def main():
    asyncio.create_task(ThreadRunner()(lambda: time.sleep(3600)))
    await asyncio.sleep(0.1)

asyncio.run(main())
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
