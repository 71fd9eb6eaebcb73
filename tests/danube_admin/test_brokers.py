"""A single broker is a cluster of one; in a local cluster each broker has its own admin port."""

from __future__ import annotations

import json
from pathlib import Path

import grpc

from broker_containers.doors.danube_admin.cluster_map import number_of
from broker_containers.local_cluster.ports import ClusterSize, RequestedPorts, plan_ports
from tests.danube_admin.client import AdminClient
from tests.support.server import SulinaProcess

ME = "broker-1"


async def test_it_lists_itself_with_all_its_addresses(
    admin: AdminClient, shared_sulina_process: SulinaProcess
) -> None:
    [found] = (await admin("BrokerAdmin/ListBrokers")).brokers
    assert found.broker_id == ME
    assert found.broker_addr == shared_sulina_process.url
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
