"""Roles, bindings and brokers over Danube's admin services, of one broker or a local cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import grpc
import pytest

from broker_containers.doors.danube_admin.cluster_map import number_of
from broker_containers.local_cluster.ports import ClusterSize, RequestedPorts, plan_ports
from tests.danube_admin.client import AdminClient
from tests.support.server import SulinaProcess

Code = grpc.StatusCode


async def create_role(admin: AdminClient, name: str, *permissions: str, **more: Any) -> None:
    role = {"name": name, "permissions": permissions, **more}
    assert (await admin("SecurityAdmin/CreateRole", role=role)).success


def binding(name: str, **more: Any) -> dict[str, Any]:
    return {
        "id": name,
        "principal_type": "service_account",
        "principal_name": name,
        "role_names": [name],
        "scope": "cluster",
        **more,
    }


async def test_a_role_is_created_replaced_listed_and_deleted(
    admin: AdminClient, unused: str
) -> None:
    await create_role(admin, unused, "Produce", "Lookup", "Produce")
    found = (await admin("SecurityAdmin/GetRole", name=unused)).role
    assert (found.name, list(found.permissions), found.system) == (
        unused,
        ["Produce", "Lookup"],
        False,
    )
    await create_role(admin, unused, "Consume")
    listed = (await admin("SecurityAdmin/ListRoles")).roles
    [permissions] = [list(role.permissions) for role in listed if role.name == unused]
    assert permissions == ["Consume"]
    assert (await admin("SecurityAdmin/DeleteRole", name=unused)).success
    for method in ("GetRole", "DeleteRole"):
        said = await admin.refused(Code.NOT_FOUND, f"SecurityAdmin/{method}", name=unused)
        assert unused in said


async def test_a_system_role_can_not_be_deleted_or_replaced(
    admin: AdminClient, unused: str
) -> None:
    await create_role(admin, unused, "Lookup", system=True)
    await create_role(admin, unused, "Lookup", system=True)
    other = {"name": unused, "permissions": ["ManageCluster"]}
    for method, fields in (("DeleteRole", {"name": unused}), ("CreateRole", {"role": other})):
        said = await admin.refused(Code.FAILED_PRECONDITION, f"SecurityAdmin/{method}", **fields)
        assert "system role" in said
    assert (await admin("SecurityAdmin/GetRole", name=unused)).role.system


async def test_a_bound_role_can_be_deleted_and_its_binding_stays(
    admin: AdminClient, unused: str
) -> None:
    await create_role(admin, unused, "Lookup")
    assert (await admin("SecurityAdmin/CreateBinding", binding=binding(unused))).success
    assert (await admin("SecurityAdmin/DeleteRole", name=unused)).success
    fields = {"scope": "cluster", "binding_id": unused}
    found = (await admin("SecurityAdmin/GetBinding", **fields)).binding
    assert list(found.role_names) == [unused]
    assert (await admin("SecurityAdmin/DeleteBinding", **fields)).success


async def test_bindings_are_created_replaced_listed_and_deleted(
    admin: AdminClient, unused: str
) -> None:
    places = [("cluster", ""), ("namespace", unused), ("topic", f"/{unused}/orders")]
    for scope, resource in places:
        made = binding(unused, scope=scope, resource_name=resource)
        await admin("SecurityAdmin/CreateBinding", binding=made)
    # As the documentation of Danube writes a namespace; it is the same one.
    changed = binding(unused, scope="namespace", resource_name=f"/{unused}", principal_type="user")
    await admin("SecurityAdmin/CreateBinding", binding=changed)
    everywhere = (await admin("SecurityAdmin/ListAllBindings")).bindings
    found = [one for one in everywhere if one.id == unused]
    assert [(one.scope, one.resource_name) for one in found] == places
    assert [one.principal_type for one in found] == ["service_account", "user", "service_account"]
    for scope, resource in places:
        fields = {"scope": scope, "resource_name": resource}
        listed = (await admin("SecurityAdmin/ListBindings", **fields)).bindings
        assert [one.id for one in listed if one.id == unused] == [unused]
        all_of_it = (await admin("SecurityAdmin/ListBindings", scope=scope)).bindings
        assert unused in [one.id for one in all_of_it]
        fields["binding_id"] = unused
        one = (await admin("SecurityAdmin/GetBinding", **fields)).binding
        assert (one.principal_name, list(one.role_names)) == (unused, [unused])
        assert (await admin("SecurityAdmin/DeleteBinding", **fields)).success
        for method in ("GetBinding", "DeleteBinding"):
            said = await admin.refused(Code.NOT_FOUND, f"SecurityAdmin/{method}", **fields)
            assert scope in said
    left = (await admin("SecurityAdmin/ListBindings", scope="topic")).bindings
    assert unused not in [one.id for one in left]


@pytest.mark.parametrize(
    "change",
    [
        {"id": ""},
        {"principal_name": ""},
        {"principal_type": ""},
        {"principal_type": "broker_internal"},
        {"role_names": []},
        {"role_names": [""]},
        {"scope": "everywhere"},
        {"resource_name": "default"},
        {"scope": "namespace"},
        {"scope": "topic", "resource_name": "/default/*"},
    ],
)
async def test_an_invalid_binding_is_refused(
    admin: AdminClient, unused: str, change: dict[str, Any]
) -> None:
    wrong = {**binding(unused), **change}
    said = await admin.refused(Code.INVALID_ARGUMENT, "SecurityAdmin/CreateBinding", binding=wrong)
    assert said


async def test_an_invalid_role_is_refused(admin: AdminClient) -> None:
    wrong: list[dict[str, Any]] = [
        {"name": "x", "permissions": ["Sing"]},
        {"name": "x", "permissions": ["produce"]},
        {"name": ""},
        {},
    ]
    for role in wrong:
        await admin.refused(Code.INVALID_ARGUMENT, "SecurityAdmin/CreateRole", role=role)
    await admin.refused(Code.INVALID_ARGUMENT, "SecurityAdmin/ListBindings", scope="x")


ME = "broker-1"


async def test_it_lists_itself_with_all_its_addresses(
    admin: AdminClient, shared_sulina_process: SulinaProcess
) -> None:
    [found] = (await admin("BrokerAdmin/ListBrokers")).brokers
    assert found.broker_id == ME
    assert found.broker_addr == f"http://127.0.0.1:{shared_sulina_process.grpc_port}"
    assert found.broker_role == "Cluster_Leader"
    assert found.admin_addr == f"http://127.0.0.1:{shared_sulina_process.admin_port}"
    assert found.metrics_addr == shared_sulina_process.http_url
    assert found.broker_status == "active"


async def test_it_leads(admin: AdminClient) -> None:
    assert (await admin("BrokerAdmin/GetLeaderBroker")).leader == ME
    status = await admin("ClusterAdmin/ClusterStatus")
    assert status.leader_id == status.self_node_id == number_of(ME)
    assert list(status.voters) == [number_of(ME)] and not status.learners


def test_a_broker_whose_id_is_a_number_has_that_number() -> None:
    assert number_of("7") == 7
    assert number_of("0") != 0
    assert 0 < number_of("broker-1") < 1 << 64
    assert number_of("broker-1") != number_of("broker-2")


async def test_namespaces_are_listed(admin: AdminClient, namespace: str) -> None:
    found = (await admin("BrokerAdmin/ListNamespaces")).namespaces
    assert {"default", "system", namespace} <= set(found)


async def test_it_can_not_be_unloaded_without_other_brokers(admin: AdminClient) -> None:
    said = await admin.refused(
        grpc.StatusCode.FAILED_PRECONDITION, "BrokerAdmin/UnloadBroker", broker_id=ME
    )
    assert "only active broker" in said


async def test_activating_it_has_no_effect(admin: AdminClient) -> None:
    assert (await admin("BrokerAdmin/ActivateBroker", broker_id=ME, reason="why not")).success
    assert (await admin("BrokerAdmin/ActivateBroker", broker_id=str(number_of(ME)))).success


async def test_a_broker_must_be_named_and_exist(admin: AdminClient) -> None:
    method = "BrokerAdmin/ActivateBroker"
    assert "missing" in await admin.refused(grpc.StatusCode.INVALID_ARGUMENT, method)
    said = await admin.refused(grpc.StatusCode.NOT_FOUND, method, broker_id="ghost")
    assert "ghost" in said
    await admin.refused(grpc.StatusCode.NOT_FOUND, "TopicAdmin/ListBrokerTopics", broker_id="ghost")
    await admin.refused(grpc.StatusCode.NOT_FOUND, "BrokerAdmin/UnloadBroker", broker_id="ghost")


async def test_its_load_is_the_whole_load(admin: AdminClient, topic: str) -> None:
    await admin("TopicAdmin/CreateTopic", name=topic, dispatch_strategy="Reliable")
    found = await admin("BrokerAdmin/GetClusterBalance")
    [me] = found.brokers
    assert found.broker_count == 1 and found.coefficient_of_variation == 0
    assert me.broker_id == number_of(ME) and me.topic_count >= 1
    assert not me.is_overloaded and not me.is_underloaded
    assert found.mean_load == found.max_load == found.min_load == me.load
    assert found.assignment_strategy == "Fair"


async def test_there_is_nothing_to_rebalance(admin: AdminClient) -> None:
    found = await admin("BrokerAdmin/TriggerRebalance", dry_run=True, max_moves=3)
    assert found.success and not found.moves_executed and not found.proposed_moves
    assert "single broker" in found.error_message


_FREE = RequestedPorts(port=0, http_port=0, admin_port=0)


def test_each_broker_has_its_own_port_and_keeps_it(tmp_path: Path) -> None:
    plan = plan_ports(tmp_path, ClusterSize(brokers=3), _FREE)
    assert list(plan.admin) == list(plan.brokers) and len(set(plan.admin.values())) == 3
    assert plan_ports(tmp_path, ClusterSize(brokers=3), _FREE).admin == plan.admin


def test_ports_follow_the_one_that_is_asked_for(tmp_path: Path) -> None:
    free = plan_ports(tmp_path / "one", ClusterSize(brokers=1), _FREE).admin["broker-1"]
    asked = RequestedPorts(port=0, http_port=0, admin_port=free)
    assert plan_ports(tmp_path / "two", ClusterSize(brokers=1), asked).admin == {"broker-1": free}


def test_a_plan_without_admin_ports_gets_some(tmp_path: Path) -> None:
    before = plan_ports(tmp_path, ClusterSize(brokers=2), _FREE)
    path = tmp_path / "cluster.json"
    plan = json.loads(path.read_text())
    del plan["admin"]
    path.write_text(json.dumps(plan))
    after = plan_ports(tmp_path, ClusterSize(brokers=2), _FREE)
    assert after.brokers == before.brokers and len(after.admin) == 2
