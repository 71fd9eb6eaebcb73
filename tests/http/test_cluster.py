"""Any broker of a cluster answers for all of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import sulina
from broker_containers.assembly.cluster import cluster_broker
from broker_containers.assembly.clustered_broker import ClusteredBroker, ClusteredBrokerSettings
from broker_containers.assembly.running import DoorSettings, LedgerStorage
from broker_containers.assembly.single import run_on_storage_nodes
from broker_containers.audit.trail import AuditSettings
from broker_containers.broker.settings import BrokerSettings
from broker_containers.doors.http.health import journal_check
from broker_containers.doors.http.routes import API, ENDPOINTS
from broker_containers.doors.listen import Listen
from storage_grpc.journal import JournalSettings, JournalStore
from storage_grpc.journal.metrics import of_journal
from storage_grpc.ledgers import EmbeddedLedgers
from storage_grpc.quorum.settings import QuorumSettings
from sulina.metadata.embedded import EmbeddedStore
from sulina.metadata.store import MetadataStore
from sulina.runtime.real_clock import RealClock
from sulina.runtime.real_disk import RealDisk
from sulina.runtime.real_network import RealNetwork
from sulina.runtime.real_random import real_random
from tests.http.client import Http, check_documented, http_client
from tests.storage_service.process import storage_processes

PATIENCE = 60.0
_ABOUT_THE_CLUSTER = frozenset(
    {
        *("cluster.describe", "broker.list", "broker.describe", "broker.drain", "broker.activate"),
        *("balance.show", "balance.plan", "balance.rebalance", "topic.lookup", "topic.ledgers"),
    }
)


@dataclass(frozen=True, slots=True)
class Two:
    """Two brokers, by name."""

    doors: dict[str, Http]
    urls: dict[str, str]
    """For clients."""

    async def owner_and_other(self, topic: str) -> tuple[str, str]:
        """The broker that serves a topic of the namespace default, and the other one."""
        found = await self.doors["broker-1"].ok("GET", f"/api/v1/lookup/default/{topic}")
        [other] = set(self.doors) - {found["broker"]}
        return found["broker"], other


@asynccontextmanager
async def two_brokers(folder: Path, audit: AuditSettings | None = None) -> AsyncIterator[Two]:
    """Two brokers of one cluster in this process, over one journal and one metadata store."""
    clock = RealClock()
    disk = RealDisk(folder / "journal")
    entries = await JournalStore.open(disk, clock, JournalSettings(), real_random())
    store = await EmbeddedStore.open(clock)
    try:
        async with AsyncExitStack() as stack:
            running = {
                name: await stack.enter_async_context(_broker(name, store, entries, audit))
                for name in ("broker-1", "broker-2")
            }
            doors = {name: http for name, (http, _) in running.items()}
            for http in doors.values():
                await _knows_all(http, len(doors))
            yield Two(doors, {name: url for name, (_, url) in running.items()})
    finally:
        await entries.close()
        await store.close()
        await disk.close()


async def _knows_all(http: Http, count: int) -> None:
    while True:
        known = await http.ok("GET", f"{API}/cluster")
        if known["leader"] is not None and len(known["brokers"]) == count:
            return
        await asyncio.sleep(0.01)


@asynccontextmanager
async def _broker(
    name: str, store: MetadataStore, entries: JournalStore, audit: AuditSettings | None
) -> AsyncIterator[tuple[Http, str]]:
    doors = DoorSettings(Listen(port=0), http=Listen(port=0))
    settings = ClusteredBrokerSettings(BrokerSettings(broker_id=name), doors, audit=audit)
    storage = LedgerStorage(EmbeddedLedgers(entries), journal_check(entries), of_journal(entries))
    node = ClusteredBroker(settings, store, storage, RealClock(), sulina.connect, RealNetwork())
    async with (
        cluster_broker(node) as running,
        http_client(running.addresses.http_url) as http,
    ):
        yield http, running.addresses.url


async def test_messages_are_published_and_read_through_any_broker(tmp_path: Path) -> None:
    async with asyncio.timeout(PATIENCE), two_brokers(tmp_path) as two:
        first, second = two.doors.values()
        path = "/api/v1/topics/default/t/messages"
        await first.ok("POST", "/api/v1/topics", {"topic": "/default/t"})
        for number, door in enumerate((first, second, first, second)):
            headers = {"Sulina-Key": f"k{number}", "Sulina-Attribute-N": str(number)}
            sent = await door.ok("POST", path, data=b"\xff%d" % number, headers=headers)
            assert (sent["topic"], sent["offset"]) == ("/default/t", number)
        for door in (first, second):
            read = (await door.ok("GET", path))["messages"]
            assert [each["key"] for each in read] == ["k0", "k1", "k2", "k3"]
            assert [each["attributes"] for each in read] == [{"n": str(n)} for n in range(4)]
            assert {len(each["payload_base64"]) for each in read} == {4}


async def test_publishing_goes_on_through_a_move(tmp_path: Path) -> None:
    async with asyncio.timeout(PATIENCE), two_brokers(tmp_path) as two:
        path = "/api/v1/topics/default/t"
        await two.doors["broker-1"].ok("POST", "/api/v1/topics", {"topic": "/default/t"})
        owner, other = await two.owner_and_other("t")
        offsets: list[int] = []

        moved = asyncio.Event()

        async def publish(http: Http) -> None:
            while not moved.is_set():
                sent = await http.ok("POST", f"{path}/messages", data=b"x")
                offsets.append(sent["offset"])

        async with asyncio.TaskGroup() as publishing:
            for http in [*two.doors.values()] * 4:
                publishing.create_task(publish(http))
            while len(offsets) < 100:
                await asyncio.sleep(0.01)
            await two.doors[owner].ok("POST", f"{path}/move", {"broker": other})
            while (await two.owner_and_other("t"))[0] != other:
                await asyncio.sleep(0.01)
            moved.set()
        assert len(set(offsets)) == len(offsets)
        read = await two.doors[other].ok("GET", f"{path}/messages?start=latest")
        assert read["next_offset"] == len(offsets)


async def test_the_owner_answers_for_a_topics_subscriptions(tmp_path: Path) -> None:
    async with asyncio.timeout(PATIENCE), two_brokers(tmp_path) as two:
        await two.doors["broker-1"].ok("POST", "/api/v1/topics", {"topic": "/default/t"})
        owner, other = await two.owner_and_other("t")
        path = "/api/v1/topics/default/t/subscriptions"
        await two.doors[other].ok("POST", path, {"subscription": "s"})
        for name in (owner, other):
            [found] = await two.doors[name].ok("GET", path)
            assert found["subscription"] == "s"


async def test_the_cluster_is_described_by_each_of_its_brokers(tmp_path: Path) -> None:
    async with asyncio.timeout(PATIENCE), two_brokers(tmp_path) as two:
        for http in two.doors.values():
            brokers = await http.ok("GET", "/api/v1/brokers")
            assert [each["broker"] for each in brokers] == ["broker-1", "broker-2"]
            assert {each["http"] for each in brokers} == {each.url for each in two.doors.values()}
            assert (await http.ok("GET", "/api/v1/cluster"))["leader"] in two.doors


async def test_a_single_broker_over_storage_nodes_describes_its_cluster_of_one(
    tmp_path: Path,
) -> None:
    with storage_processes(tmp_path, 1) as nodes:
        copies = QuorumSettings(write_quorum=1, ack_quorum=1)
        places = [node.place for node in nodes]
        listen = Listen(port=0)
        async with (
            asyncio.timeout(PATIENCE),
            run_on_storage_nodes(
                tmp_path / "broker", DoorSettings(listen, http=listen), places, quorum=copies
            ) as running,
            http_client(running.addresses.http_url) as http,
        ):
            assert (await http.ok("GET", f"{API}/cluster"))["leader"] == "broker-1"
            [row] = await http.ok("GET", f"{API}/brokers")
            assert row["url"] == running.addresses.url
            assert f"{API}/cluster" in (await http.ok("GET", "/openapi.json"))["paths"]


async def test_answers_about_the_cluster_are_as_documented(tmp_path: Path) -> None:
    async with asyncio.timeout(PATIENCE), two_brokers(tmp_path) as two:
        names = {"namespace": "default", "topic": "t", "broker": "broker-2"}
        for http in two.doors.values():
            await http.ok("POST", f"{API}/topics/default/t/messages", data=b"x")
            document = await http.ok("GET", "/openapi.json")
            for endpoint in ENDPOINTS:
                if endpoint.name in _ABOUT_THE_CLUSTER:
                    body: dict[str, str] | None = None if endpoint.body is None else {}
                    answer = await http(endpoint.verb, endpoint.path.format(**names), body)
                    check_documented(endpoint, answer, document)
