"""Brokers of a cluster go by settings that were changed, and tell each other what changed."""

from __future__ import annotations

from tests.cluster_services.patience import until
from tests.owners.brokers import Brokers


async def test_a_setting_changed_at_one_broker_holds_on_all() -> None:
    async with Brokers() as brokers:
        await brokers.start("b1", "b2", "b3")
        nodes = list(brokers.running.values())
        async with brokers.client("b2") as client:
            await client.admin("config.set", {"name": "cluster.report_seconds", "value": "1s"})
            await client.admin("config.set", {"name": "balance.enabled", "value": False})
            own = {"name": "broker.max_requests", "value": 9, "broker": "b3"}
            await client.admin("config.set", own)
        await until(lambda: brokers.running["b3"].broker.settings.max_requests == 9)
        await until(lambda: all(node.election.settings.report_seconds == 1 for node in nodes))
        await until(lambda: all(not node.leader_tasks.manager.settings.enabled for node in nodes))
        assert brokers.running["b1"].broker.settings.max_requests != 9


async def test_brokers_of_a_cluster_announce_changes_to_each_other() -> None:
    async with Brokers() as brokers:
        await brokers.start("b1", "b2")
        nodes = list(brokers.running.values())
        await until(lambda: any(node.synchronizer.announced for node in nodes))
        await until(lambda: any(node.synchronizer.heard for node in nodes))
