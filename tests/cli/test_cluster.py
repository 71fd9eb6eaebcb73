"""``sulina broker``, ``cluster``, ``balance`` and ``topic move`` on a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.blocking_client import BlockingClient
from tests.cli.runner import SulinaCommand
from tests.support.local_cluster import ClusterUp

TOPIC = "/default/t"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterUp]:
    data: Path = tmp_path_factory.mktemp("cluster") / "data"
    with ClusterUp(data, "--brokers", "2", "--storage", "1", "--etcd", "1") as running:
        BlockingClient(running.url).publish(TOPIC, "one", "two")
        yield running


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_an_operator_describes_a_cluster_moves_topics_and_drains_a_broker(
    cluster: ClusterUp,
) -> None:
    sulina = SulinaCommand(cluster.url)
    # Describe.
    shown = sulina("cluster", "describe").stdout
    assert "broker-1" in shown and "broker-2" in shown
    described = sulina("cluster", "describe", "--json").json()
    assert described["leader"] in ("broker-1", "broker-2")
    assert described["topics"] >= 1  # the system's own are counted as well
    rows = sulina("broker", "list", "--json").json()
    assert [row["broker"] for row in rows] == ["broker-1", "broker-2"]
    assert any(row["topics"] for row in rows)  # how many may change between two looks
    owner = sulina("topic", "lookup", TOPIC, "--json").json()["broker"]
    assert owner in sulina("topic", "lookup", TOPIC).stdout
    assert TOPIC in sulina("broker", "describe", owner, "--topics").lines()
    assert TOPIC in sulina("broker", "describe", owner, "--json").json()["owns"]
    [ledger] = sulina("topic", "ledgers", TOPIC, "--json").json()["ledgers"]
    assert ledger["first_offset"] == 0
    assert "first offset" in sulina("topic", "ledgers", TOPIC).stdout

    # Move a topic there and back.
    [other] = {"broker-1", "broker-2"} - {owner}
    ran = sulina("topic", "move", TOPIC, "--to", other, "--wait")
    assert ran.stdout == f"moved {TOPIC} from {owner} to {other}\n"
    assert sulina("topic", "move", TOPIC, "--json").json()["target"] == owner
    assert "/default/none has no owner" in sulina("topic", "move", "/default/none", code=1).stderr

    # Drain a broker, and activate it.
    moved = sulina("broker", "drain", owner, "--json").json()
    assert moved["mode"] == "draining"
    assert sulina("topic", "lookup", TOPIC, "--json").json()["broker"] == other
    assert "draining" in sulina("broker", "list").stdout
    ran = sulina("broker", "drain", other, code=1)
    assert f"{other} is the only active broker" in ran.stderr
    assert (
        sulina("broker", "activate", owner).stdout
        == f"activated {owner}: it can own topics again\n"
    )
    ran = sulina("broker", "drain", "broker-9", code=1)
    assert "no broker 'broker-9' is running" in ran.stderr
    assert BlockingClient(cluster.url).read(TOPIC) == ["one", "two"]

    # Delete a topic where no node has an object store.
    BlockingClient(cluster.url).publish("/default/short-lived", "one")
    sulina("topic", "delete", "/default/short-lived")
    assert "/default/short-lived" not in sulina("topic", "list").stdout

    # Balance.
    assert {row["broker"] for row in sulina("balance", "show", "--json").json()["brokers"]} == {
        "broker-1",
        "broker-2",
    }
    assert "leader" in sulina("balance", "show").stdout
    assert "max/mean" in sulina("balance", "plan").stdout
    assert sulina("balance", "plan", "--json").json()["moves"] == []
    assert "max/mean" in sulina("balance", "rebalance").stdout
