"""What Danube's permissions mean here, and which grants bindings result in."""

from __future__ import annotations

import asyncio

import pytest

from broker_containers.security.access import of_topic
from broker_containers.security.authority import Authority
from broker_containers.security.binding_grants import BindingGrants
from broker_containers.security.permissions import grants_of
from broker_containers.security.records import SecurityRecords
from broker_containers.security.settings import AuthSettings
from sulina.errors import Refused
from sulina.metadata.embedded import EmbeddedStore
from sulina.metadata.keys import bindings, record, roles
from sulina.metadata.keys.auth import Grant
from sulina.metadata.keys.bindings import BindingRecord, BindingScope, PrincipalType, Reach
from sulina.metadata.keys.roles import Permission, RoleRecord
from sulina.metadata.store import KeyValue
from sulina.model import Action
from sulina.runtime.machine import secret_text
from sulina.runtime.memory_disk import MemoryDisk
from sulina.runtime.real_clock import RealClock

ORDERS = "/shop/orders"
REACHES = (
    Reach(BindingScope.CLUSTER),
    Reach(BindingScope.NAMESPACE, "shop"),
    Reach(BindingScope.TOPIC, ORDERS),
)
MEANING = {
    "Lookup": ["lookup:*", "lookup:/shop/*", f"lookup:{ORDERS}"],
    "Produce": ["produce:*", "produce:/shop/*", f"produce:{ORDERS}"],
    "Consume": ["consume:*", "consume:/shop/*", f"consume:{ORDERS}"],
    "Replicate": ["", "", ""],
    "ManageNamespace": ["namespaces:*", "namespaces:/shop/*", ""],
    "ManageTopic": ["topics:*", "topics:/shop/*", f"topics:{ORDERS}"],
    "ManageSchema": ["schemas:*", "schemas:/shop/*", f"schemas:{ORDERS}"],
    "ManageBroker": ["brokers:*", "", ""],
    "ManageCluster": ["cluster:*", "", ""],
}
"""At the scopes cluster, namespace and topic."""


def test_the_table_says_what_each_permission_means_at_each_scope() -> None:
    assert MEANING.keys() == set(Permission)
    for permission, texts in MEANING.items():
        found = [grants_of([Permission(permission)], reach) for reach in REACHES]
        assert found == [(Grant.parse(text),) if text else () for text in texts]


def test_at_a_subject_only_the_permission_for_schemas_counts() -> None:
    found = grants_of(Permission, Reach.parse("topic", "orders-value"))
    assert [str(grant) for grant in found] == ["schemas:orders-value"]


@pytest.mark.parametrize(
    ("scope", "resource", "told"),
    [
        ("cluster", "", "cluster"),
        ("namespace", "shop", "namespace shop"),
        ("namespace", "/shop", "namespace shop"),
        ("topic", "shop/orders", f"topic {ORDERS}"),
        ("topic", ORDERS, f"topic {ORDERS}"),
    ],
)
def test_a_reach_is_read_as_danubes_tools_write_it(scope: str, resource: str, told: str) -> None:
    assert str(Reach.parse(scope, resource)) == told


@pytest.mark.parametrize(
    ("scope", "resource"),
    [
        ("broker", ""),
        ("cluster", "shop"),
        ("namespace", ""),
        ("topic", ""),
        ("namespace", "shop/orders"),
        ("namespace", "*"),
        ("topic", "/shop/*"),
        ("topic", "a/b/c"),
    ],
)
def test_an_invalid_reach_is_refused(scope: str, resource: str) -> None:
    with pytest.raises(Refused):
        Reach.parse(scope, resource)


def _role(bound: BindingGrants, name: str, *permissions: Permission) -> None:
    value = record.encode(RoleRecord(permissions))
    bound.tables[0].put(KeyValue(roles.key(name), value, 1, 1, 1, 0))


def _bind(bound: BindingGrants, binding_id: str, reach: Reach, made: BindingRecord) -> None:
    key = bindings.key(reach, binding_id)
    bound.tables[1].put(KeyValue(key, record.encode(made), 1, 1, 1, 0))


def _texts(bound: BindingGrants, kind: PrincipalType | None = None) -> list[str] | None:
    found = bound.grants("web", kind)
    return None if found is None else [str(grant) for grant in found]


def test_bindings_grant_what_their_roles_contain_at_the_moment() -> None:
    bound = BindingGrants()
    cluster, namespace, topic = REACHES
    assert _texts(bound) is None
    _bind(bound, "1", namespace, BindingRecord("web", roles=("producer", "later")))
    assert _texts(bound) == []
    _role(bound, "producer", Permission.PRODUCE, Permission.REPLICATE)
    assert _texts(bound) == ["produce:/shop/*"]
    _role(bound, "later", Permission.CONSUME)
    assert _texts(bound) == ["produce:/shop/*", "consume:/shop/*"]
    _bind(bound, "1", topic, BindingRecord("web", roles=("producer",)))
    _bind(bound, "1", cluster, BindingRecord("other", roles=("producer",)))
    bound.tables[1].remove(bindings.key(namespace, "1"))
    assert _texts(bound) == [f"produce:{ORDERS}"]
    bound.tables[0].remove(roles.key("producer"))
    assert _texts(bound) == []
    _bind(bound, "1", topic, BindingRecord("other", roles=("producer",)))
    assert _texts(bound) is None


def test_a_binding_of_a_user_is_not_for_a_service_of_the_same_name() -> None:
    bound = BindingGrants()
    _role(bound, "r", Permission.PRODUCE)
    _bind(bound, "1", REACHES[2], BindingRecord("web", PrincipalType.USER, ("r",)))
    assert _texts(bound, PrincipalType.USER) == [f"produce:{ORDERS}"]
    assert _texts(bound, PrincipalType.SERVICE_ACCOUNT) is None


async def test_every_broker_follows_changes_of_roles_and_bindings() -> None:
    clock = RealClock()
    store = await EmbeddedStore.open(clock, MemoryDisk())
    records = SecurityRecords(store, clock, secret_text)
    token = (await records.create_token("web")).token
    publishing = of_topic(Action.PRODUCE, ORDERS)
    try:
        async with Authority(store, clock, AuthSettings("a root token of a test")) as authority:
            changed = asyncio.Event()
            authority.follow(changed.set)

            async def until(allowed: bool) -> None:
                """The watch reports changes: the store is not read again."""
                async with asyncio.timeout(60):
                    while authority.access(token).allows(publishing) is not allowed:
                        changed.clear()
                        await changed.wait()

            await until(False)
            await bindings.put(store, REACHES[1], "1", BindingRecord("web", roles=("producer",)))
            await roles.put(store, "producer", RoleRecord((Permission.PRODUCE,)))
            await until(True)
            await roles.put(store, "producer", RoleRecord((Permission.CONSUME,)))
            await until(False)
            await roles.put(store, "producer", RoleRecord((Permission.PRODUCE,)))
            await until(True)
            await bindings.delete(store, REACHES[1], "1")
            await until(False)
    finally:
        await store.close()
