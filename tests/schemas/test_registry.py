"""The registry's contract, the same on every metadata store."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from broker_containers.schemas.errors import Incompatible, InvalidSchema
from broker_containers.schemas.registry import SchemaRegistry, open_registry
from broker_containers.schemas.values import Remarks
from sulina.errors import NotFound, Refused, TooLarge, UnknownOutcome
from sulina.metadata.embedded import EmbeddedStore
from sulina.metadata.keys import schemas, topic_lifecycle
from sulina.metadata.keys.schemas import Compatibility, TopicSchemaRecord, Validation
from sulina.metadata.keys.topics import TopicRecord
from sulina.metadata.store import Compare, MetadataStore, Op, TxnResult
from sulina.names import TopicName
from sulina.runtime.real_clock import RealClock
from tests.metadata.manual_clock import ManualClock
from tests.schemas.json_shapes import (
    INTEGER,
    NAME,
    NAME_AND_AGE,
    NAME_AS_NUMBER,
    STRING,
    fields,
    text,
)

ORDERS = TopicName.parse("/default/orders")


@pytest.fixture
def registry(any_store: MetadataStore) -> SchemaRegistry:
    return open_registry(any_store, RealClock())


async def test_versions_count_from_one_and_share_the_id_of_their_subject(
    registry: SchemaRegistry,
) -> None:
    first = await registry.register("users", "json_schema", text(NAME))
    second = await registry.register("users", "json_schema", text(NAME_AND_AGE))
    other = await registry.register("orders", "json_schema", text(NAME))
    assert (first.version, second.version, other.version) == (1, 2, 1)
    assert first.new and second.new and other.new
    assert first.id == second.id != other.id
    assert first.fingerprint.startswith("sha256:") and first.fingerprint == other.fingerprint


async def test_the_same_schema_is_registered_once_however_it_is_written(
    registry: SchemaRegistry,
) -> None:
    first = await registry.register("users", "json_schema", text(NAME))
    await registry.register("users", "json_schema", text(NAME_AND_AGE))
    again = await registry.register(
        "users",
        "json",
        b' {"required":[], "properties": {"name": {"type":"string"}},"type":"object"}',
    )
    assert again.version == 1 and not again.new and again.id == first.id
    assert (await registry.version("users")).version.number == 2


async def test_what_was_registered_is_given_back_byte_for_byte(registry: SchemaRegistry) -> None:
    definition = b'  {"type" : "object"}\n'
    made = await registry.register(
        "users", "json", definition, Remarks("who they are", "ops", ("pii", "core"))
    )
    for found in (
        await registry.version("users"),
        await registry.version("users", 1),
        await registry.get(made.id),
        await registry.get(made.id, 1),
    ):
        assert found.version.definition_bytes == definition
        assert found.version.description == "who they are"
        assert found.version.created_by == "ops"
        assert found.version.tags == ("pii", "core")
        assert (found.subject, found.id) == ("users", made.id)
        assert found.compatibility is Compatibility.BACKWARD


async def test_types_without_a_definition_are_their_own_fingerprint(
    registry: SchemaRegistry,
) -> None:
    for name in ("bytes", "string", "number"):
        made = await registry.register(name, name, b"")
        assert made.fingerprint == name
    again = await registry.register("number", "int64", b"")
    assert not again.new and again.version == 1


async def test_what_does_not_exist_is_not_found(registry: SchemaRegistry) -> None:
    await registry.register("users", "string", b"")
    for question in (
        registry.version("nobody"),
        registry.version("users", 2),
        registry.get(99),
        registry.versions("nobody"),
        registry.check("nobody", "string", b""),
        registry.set_compatibility("nobody", Compatibility.FULL),
        registry.delete_version("nobody", 1),
        registry.delete_version("users", 7),
        registry.delete_subject("nobody"),
    ):
        with pytest.raises(NotFound):
            await question


async def test_nonsense_is_refused_with_the_reason(registry: SchemaRegistry) -> None:
    with pytest.raises(InvalidSchema, match="no schema type 'xml'"):
        await registry.register("users", "xml", b"")
    with pytest.raises(InvalidSchema, match="not JSON"):
        await registry.register("users", "avro", b"{")
    with pytest.raises(InvalidSchema, match="schema subject"):
        await registry.register("", "string", b"")
    with pytest.raises(TooLarge):
        await registry.register("users", "json", b" " * (300 << 10))
    with pytest.raises(InvalidSchema, match="tags"):
        Remarks(tags=("x",) * 100)
    assert await registry.subjects() == {}


async def test_an_incompatible_schema_is_refused_with_every_reason(
    registry: SchemaRegistry,
) -> None:
    await registry.register("users", "json", text(NAME_AND_AGE))
    wrong = text(fields("mail", name=INTEGER, mail=STRING))
    with pytest.raises(Incompatible, match=r"not compatible.*mail.*name"):
        await registry.register("users", "json", wrong)
    assert len(await registry.versions("users")) == 1


async def test_a_check_changes_nothing_and_may_use_another_mode(registry: SchemaRegistry) -> None:
    await registry.register("users", "json", text(NAME))
    reasons = await registry.check("users", "json", text(NAME_AS_NUMBER))
    assert reasons == ["it cannot read data of version 1: name: string cannot be read as integer"]
    assert await registry.check("users", "json", text(NAME_AS_NUMBER), Compatibility.NONE) == []
    assert await registry.check("users", "string", b"") == [
        "version 1 is json_schema, but this is string"
    ]
    assert len(await registry.versions("users")) == 1


async def test_the_mode_of_a_subject_decides(registry: SchemaRegistry) -> None:
    await registry.register("users", "json", text(NAME))
    await registry.set_compatibility("users", Compatibility.NONE)
    assert (await registry.register("users", "json", text(NAME_AS_NUMBER))).version == 2
    assert (await registry.register("users", "string", b"")).version == 3
    await registry.set_compatibility("users", Compatibility.FULL)
    with pytest.raises(Incompatible):
        await registry.register("users", "json", text(NAME_AND_AGE))


async def test_transitive_modes_look_at_all_versions(registry: SchemaRegistry) -> None:
    await registry.register("users", "json", text(fields(a=STRING)))
    await registry.register("users", "json", text(fields(b=STRING)))
    third = text(fields(a=INTEGER, b=STRING))
    assert await registry.check("users", "json", third) == []
    [reason] = await registry.check("users", "json", third, Compatibility.BACKWARD_TRANSITIVE)
    assert reason == "it cannot read data of version 1: a: string cannot be read as integer"
    [reason] = await registry.check("users", "json", third, Compatibility.FORWARD_TRANSITIVE)
    assert reason == "version 1 cannot read its data: a: integer cannot be read as string"
    assert len(await registry.check("users", "json", third, Compatibility.FULL_TRANSITIVE)) == 2


async def test_a_deleted_version_is_gone_and_its_number_is_not_given_again(
    registry: SchemaRegistry,
) -> None:
    first = await registry.register("users", "json", text(NAME), Remarks(tags=("one",)))
    await registry.register("users", "json", text(NAME_AND_AGE), Remarks(tags=("two",)))
    await registry.delete_version("users", 2)
    latest = await registry.version("users")
    assert latest.version.number == 1
    assert (await registry.subjects())["users"].tags == ("one",)
    with pytest.raises(NotFound, match="no version 2"):
        await registry.get(first.id, 2)
    again = await registry.register("users", "json", text(NAME_AND_AGE))
    assert (again.version, again.new, again.id) == (3, True, first.id)


async def test_with_its_last_version_a_subject_goes_and_its_id_is_not_given_again(
    registry: SchemaRegistry,
) -> None:
    first = await registry.register("users", "string", b"")
    await registry.delete_version("users", 1)
    assert await registry.subjects() == {}
    with pytest.raises(NotFound):
        await registry.get(first.id)
    again = await registry.register("users", "string", b"")
    assert again.version == 1 and again.id > first.id


async def test_subjects_may_have_any_printable_name(registry: SchemaRegistry) -> None:
    names = ["a/b", "a", "metadata", "_global", "ü %2F", "a/b/versions/1"]
    made = {name: await registry.register(name, "string", b"") for name in names}
    assert len({one.id for one in made.values()}) == len(names)
    assert list(await registry.subjects()) == sorted(names)
    for name, one in made.items():
        assert (await registry.get(one.id)).subject == name
    await registry.delete_subject("a")
    assert list(await registry.subjects()) == sorted({*names} - {"a"})


async def test_brokers_that_register_at_once_agree(any_store: MetadataStore) -> None:
    brokers = [open_registry(any_store, RealClock()) for _ in range(4)]
    await brokers[0].register("users", "json", text(NAME))
    await brokers[0].set_compatibility("users", Compatibility.NONE)
    variants = [text(fields(name=STRING, **{f"f{number}": STRING})) for number in range(5)]
    made = await asyncio.gather(
        *(broker.register("users", "json", variant) for broker in brokers for variant in variants)
    )
    assert sorted(one.version for one in made if one.new) == [2, 3, 4, 5, 6]
    by_content = {one.fingerprint: one.version for one in made}
    assert all(by_content[one.fingerprint] == one.version for one in made)
    found = await brokers[1].versions("users")
    assert [each.version.number for each in found] == [1, 2, 3, 4, 5, 6]
    ids = await asyncio.gather(
        *(broker.register(f"new-{n}", "string", b"") for broker in brokers for n in range(3))
    )
    assert len({one.id for one in ids}) == 3 and sum(one.new for one in ids) == 3


async def test_a_topic_is_bound_by_its_first_producer_and_others_must_agree(
    registry: SchemaRegistry, any_store: MetadataStore
) -> None:
    await topic_lifecycle.create(any_store, ORDERS, TopicRecord())
    await registry.register("orders", "string", b"")
    await registry.register("users", "string", b"")
    assert await registry.topics.get(ORDERS) is None
    with pytest.raises(Refused, match="has no schema"):
        await registry.topics.set_policy(ORDERS, Validation.ENFORCE, True)
    with pytest.raises(NotFound, match="no schema subject 'nobody'"):
        await registry.topics.bind(ORDERS, "nobody")
    bound = await registry.topics.bind(ORDERS, "orders")
    assert bound == TopicSchemaRecord("orders", Validation.WARN, payload=False)
    assert await registry.topics.bind(ORDERS, "orders") == bound
    with pytest.raises(Refused, match="bound to the schema subject 'orders'"):
        await registry.topics.bind(ORDERS, "users")
    await registry.topics.set_policy(ORDERS, Validation.ENFORCE, True)
    assert await registry.topics.get(ORDERS) == TopicSchemaRecord(
        "orders", Validation.ENFORCE, payload=True
    )
    await registry.topics.configure(ORDERS, TopicSchemaRecord("users"))
    assert await registry.topics.get(ORDERS) == TopicSchemaRecord("users")


async def test_a_subject_stays_while_topics_are_bound_to_it(
    registry: SchemaRegistry, any_store: MetadataStore
) -> None:
    await topic_lifecycle.create(any_store, ORDERS, TopicRecord())
    await registry.register("orders", "string", b"")
    await registry.topics.bind(ORDERS, "orders")
    with pytest.raises(Refused, match="/default/orders would be left without a schema"):
        await registry.delete_version("orders", 1)
    await topic_lifecycle.delete(any_store, ORDERS)
    await registry.delete_version("orders", 1)
    assert (await any_store.range(schemas.BOUND)).items == ()


async def test_a_binding_goes_with_its_topic_and_covers_its_partitions(
    registry: SchemaRegistry, any_store: MetadataStore
) -> None:
    await registry.register("orders", "string", b"")
    await topic_lifecycle.create(any_store, ORDERS, TopicRecord(partitions=2))
    await registry.topics.bind(ORDERS.partition(1), "orders")
    for name in (ORDERS, ORDERS.partition(0)):
        bound = await registry.topics.get(name)
        assert bound is not None and bound.subject == "orders"
    await topic_lifecycle.delete(any_store, ORDERS)
    with pytest.raises(NotFound):
        await registry.topics.get(ORDERS)
    await topic_lifecycle.create(any_store, ORDERS, TopicRecord())
    assert await registry.topics.get(ORDERS) is None


async def test_a_topic_is_not_bound_to_a_subject_that_is_being_deleted(
    registry: SchemaRegistry, any_store: MetadataStore
) -> None:
    await topic_lifecycle.create(any_store, ORDERS, TopicRecord())
    for _ in range(3):
        await registry.register("orders", "string", b"")
        bound, gone = await asyncio.gather(
            registry.topics.bind(ORDERS, "orders"),
            registry.delete_subject("orders"),
            return_exceptions=True,
        )
        assert isinstance(bound, Refused) != isinstance(gone, Refused), (bound, gone)
        if not isinstance(bound, BaseException):
            await topic_lifecycle.delete(any_store, ORDERS)
            await registry.delete_subject("orders")
            await topic_lifecycle.create(any_store, ORDERS, TopicRecord())


class ForgetfulStore(EmbeddedStore):
    """Does what it is told, and then says that it does not know whether it did."""

    forgets = False

    async def txn(
        self, compares: Sequence[Compare], then: Sequence[Op], otherwise: Sequence[Op] = ()
    ) -> TxnResult:
        result = await super().txn(compares, then, otherwise)
        if self.forgets:
            self.forgets = False
            raise UnknownOutcome("no answer")
        return result


async def test_an_unknown_outcome_is_read_back_and_nothing_is_done_twice() -> None:
    store = await ForgetfulStore.open(ManualClock())
    registry = open_registry(store, RealClock())
    store.forgets = True
    made = await registry.register("users", "string", b"")
    assert (made.version, made.new) == (1, True)
    assert len(await registry.versions("users")) == 1
    await store.close()
