"""Storage nodes, etcd and a broker's container with TLS: accepted and refused, new certificates."""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import trustme
from grpc_health.v1 import health_pb2

import sulina
from storage_grpc.container.health_check import connection
from storage_grpc.entries import Entry
from storage_grpc.loss_record import LossRecord
from storage_grpc.memory_store import MemoryEntryStore
from storage_grpc.node import LocalNode
from storage_grpc.remote import RemoteNodes, RemoteSettings
from storage_grpc.remote.wire.service import SERVICE
from storage_grpc.service.tls import ServerTls
from storage_grpc.tier.peers import GatheredEntries, Links, PeerNode
from sulina.errors import Refused, SulinaError, Unavailable
from sulina.runtime.real_clock import RealClock
from sulina.runtime.tls_files import TlsFiles
from tests.storage_service.serving import INCARNATION, QUICK, linked, remote, serving
from tests.support.certificates import issue
from tests.support.etcd import etcd_servers


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="session")
def stranger() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def server_files(authority: trustme.CA, tmp_path: Path) -> TlsFiles:
    return issue(authority, tmp_path / "server", "storage-1")


@pytest.fixture
def client_files(authority: trustme.CA, tmp_path: Path) -> TlsFiles:
    return issue(authority, tmp_path / "client", "broker-1")


def with_tls(files: TlsFiles | None) -> RemoteSettings:
    return replace(QUICK, tls=files)


async def test_a_broker_with_a_certificate_works_with_a_node_that_asks_for_one(
    server_files: TlsFiles, client_files: TlsFiles
) -> None:
    async with serving(tls=ServerTls(server_files, ask_clients=True)) as server:
        place = f"storage-1=127.0.0.1:{server.port}"
        settings = with_tls(client_files)
        async with RemoteNodes([place], RealClock(), random.Random(1), settings) as nodes:
            await nodes.ready_within(30, 1, "the node")
            [node] = nodes.all()
            await node.append(1, 0, -1, b"secret")
            [entry] = await node.read(1, 0, max_entries=1, max_bytes=1000)
    assert bytes(entry.payload) == b"secret"


@pytest.mark.parametrize("host", ["127.0.0.1", "storage-1.example"])
async def test_the_containers_health_check_needs_no_more_than_the_nodes_own_files(
    authority: trustme.CA, tmp_path: Path, host: str
) -> None:
    files = issue(authority, tmp_path, "storage-1", host)
    async with serving(tls=ServerTls(files, ask_clients=True)) as server:
        environment = {
            "SULINA_STORAGE_PORT": str(server.port),
            "SULINA_STORAGE_TLS_CERT": str(files.certificate),
            "SULINA_STORAGE_TLS_KEY": str(files.key),
        }

        def check() -> int:
            with connection(environment) as channel:
                ask = channel.unary_unary(
                    "/grpc.health.v1.Health/Check",
                    health_pb2.HealthCheckRequest.SerializeToString,
                    health_pb2.HealthCheckResponse.FromString,
                )
                return int(ask(health_pb2.HealthCheckRequest(service=SERVICE), timeout=30).status)

        assert await asyncio.to_thread(check) == health_pb2.HealthCheckResponse.SERVING


Files = Callable[[trustme.CA, trustme.CA, Path], TlsFiles | None]


def _good(ours: trustme.CA, _: trustme.CA, folder: Path) -> TlsFiles:
    return issue(ours, folder, "good")


def _strange(_: trustme.CA, theirs: trustme.CA, folder: Path) -> TlsFiles:
    return issue(theirs, folder, "strange")


def _expired(ours: trustme.CA, _: trustme.CA, folder: Path) -> TlsFiles:
    return issue(ours, folder, "expired", expired=True)


def _misnamed(ours: trustme.CA, _: trustme.CA, folder: Path) -> TlsFiles:
    return issue(ours, folder, "misnamed", "elsewhere.example")


def _authority_only(ours: trustme.CA, _: trustme.CA, folder: Path) -> TlsFiles:
    return TlsFiles(issue(ours, folder, "unused").ca)


def _none(_: trustme.CA, __: trustme.CA, ___: Path) -> None:
    return None


@pytest.mark.parametrize(
    ("node", "broker", "why"),
    [
        (_good, _strange, "authority that is not trusted.*--storage-ca"),
        (_expired, _good, "certificate has expired: install a new one"),
        (_misnamed, _good, "for another name"),
        (_good, _none, "if it uses TLS, configure its authority.*--storage-ca"),
        (_none, _good, "does not use TLS"),
        (_good, _authority_only, "requires a client certificate.*--storage-cert"),
        (_good, _expired, "requires a client certificate that is valid.*--storage-cert"),
    ],
)
async def test_a_connection_that_tls_prevents_says_why_and_what_to_do(
    authority: trustme.CA,
    stranger: trustme.CA,
    tmp_path: Path,
    node: Files,
    broker: Files,
    why: str,
) -> None:
    files = node(authority, stranger, tmp_path / "node")
    tls = None if files is None else ServerTls(files, ask_clients=True)
    settings = with_tls(broker(authority, stranger, tmp_path / "broker"))
    async with serving(tls=tls) as server, linked(server.port, settings) as link:
        with pytest.raises(SulinaError, match=f"127.0.0.1:{server.port} did not answer: .*{why}"):
            await link.hello(30)


async def test_a_start_without_its_storage_nodes_tells_what_is_wrong_with_each(
    server_files: TlsFiles, stranger: trustme.CA, tmp_path: Path
) -> None:
    settings = with_tls(issue(stranger, tmp_path / "client", "broker-1"))
    async with serving(tls=ServerTls(server_files)) as server:
        place = f"storage-1=127.0.0.1:{server.port}"
        async with RemoteNodes([place], RealClock(), random.Random(1), settings) as nodes:
            while "trusted" not in nodes.troubles:
                await asyncio.sleep(0.01)
            with pytest.raises(Unavailable, match=r"a quorum did not .*storage-1: .*not trusted"):
                await nodes.ready_within(0.01, 1, "a quorum")


async def test_files_that_are_missing_or_do_not_belong_together_are_named(
    server_files: TlsFiles, client_files: TlsFiles, tmp_path: Path
) -> None:
    lost = replace(server_files, certificate=tmp_path / "lost.pem")
    mixed = replace(server_files, key=client_files.key)
    for files, why in (
        (lost, r"lost\.pem cannot be read \(No such file"),
        (mixed, "MISMATCH.*key"),
    ):
        with pytest.raises(Refused, match=why):
            async with serving(tls=ServerTls(files)):
                pass
        with pytest.raises(Refused, match=why):
            async with linked(1, with_tls(files)):
                pass


async def test_new_certificates_are_used_without_a_restart_while_appends_go_on(
    authority: trustme.CA, stranger: trustme.CA, tmp_path: Path
) -> None:
    """Authority and certificates of node and broker are all replaced."""
    node_files = issue(authority, tmp_path / "node", "storage-1")
    broker_files = issue(authority, tmp_path / "broker", "broker-1")
    assert node_files.ca and broker_files.ca
    settings = with_tls(broker_files)
    async with (
        serving(tls=ServerTls(node_files, ask_clients=True)) as server,
        remote(server.port, settings) as node,
        linked(server.port, settings) as link,
    ):
        await node.append(1, 0, -1, b"before")
        issue(stranger, tmp_path / "node", "storage-1")
        await node.append(1, 1, 0, b"over the connection that is there")
        with pytest.raises(SulinaError, match="not trusted"):
            await link.hello(30)
        issue(stranger, tmp_path / "broker", "broker-1")
        await link.renew()
        assert (await link.hello(30)).id == "storage-1"
        await node.append(1, 2, 1, b"still")


async def test_a_stream_of_appends_outlives_the_renewal_of_its_link(
    authority: trustme.CA, tmp_path: Path
) -> None:
    files = issue(authority, tmp_path, "both")
    async with serving(tls=ServerTls(files, ask_clients=True)) as server:
        place = f"storage-1=127.0.0.1:{server.port}"
        async with RemoteNodes([place], RealClock(), random.Random(1), with_tls(files)) as nodes:
            await nodes.ready_within(30, 1, "the node")
            [node] = nodes.all()
            await node.append(1, 0, -1, b"first")
            issue(authority, tmp_path, "both")
            await node._link.renew()
            for entry in range(1, 5):
                await node.append(1, entry, entry - 1, b"more")


async def test_a_certificate_without_its_key_is_not_used_until_the_key_is_there(
    authority: trustme.CA, stranger: trustme.CA, tmp_path: Path, client_files: TlsFiles
) -> None:
    files = issue(authority, tmp_path / "node", "storage-1")
    later = issue(stranger, tmp_path / "later", "storage-1")
    assert files.certificate and files.key and later.certificate and later.key
    async with serving(tls=ServerTls(files)) as server:
        files.certificate.write_bytes(later.certificate.read_bytes())
        async with linked(server.port, with_tls(client_files)) as link:
            assert (await link.hello(30)).id == "storage-1"
        files.key.write_bytes(later.key.read_bytes())
        async with linked(server.port, with_tls(client_files)) as link:
            with pytest.raises(SulinaError, match="not trusted"):
                await link.hello(30)


async def test_nodes_read_each_others_entries_over_tls(server_files: TlsFiles) -> None:
    store = MemoryEntryStore()
    await store.append(7, 0, -1, b"elsewhere")
    here = LocalNode("storage-2@0", MemoryEntryStore(), LossRecord(may_have_lost=False))
    links = Links(with_tls(server_files))
    async with serving(store, tls=ServerTls(server_files, ask_clients=True)) as server:
        peers = {"storage-1@0": PeerNode(f"127.0.0.1:{server.port}", INCARNATION)}
        entries = GatheredEntries(here, links, [(0, ["storage-1@0"])], peers, 30)
        found = await entries.read(7, 0, max_entries=1, max_bytes=100)
        await links.close()
    assert found == [Entry(7, 0, -1, b"elsewhere")]


_PATIENCE = 60.0


async def test_a_broker_whose_certificates_come_as_secrets_works_with_etcd_and_storage_over_tls(
    tmp_path: Path,
) -> None:
    authority = trustme.CA()
    files = issue(authority, tmp_path, "member")
    shown = issue(authority, tmp_path / "broker", "broker-1")
    assert shown.ca and shown.certificate and shown.key
    etcd = etcd_servers(tmp_path / "etcd", tls=files, client_tls=shown)
    async with serving(tls=ServerTls(files, ask_clients=True)) as storage:
        try:
            await etcd.start()
            secrets = {
                f"SULINA_BROKER_{whom}_{part}": path.read_text()
                for whom in ("ETCD", "STORAGE")
                for part, path in (
                    ("CA", shown.ca),
                    ("CERT", shown.certificate),
                    ("KEY", shown.key),
                )
            }
            [member] = etcd.settings.endpoints
            told = {
                **secrets,
                "SULINA_BROKER_ID": "broker-1",
                "SULINA_BROKER_HOST": "127.0.0.1",
                "SULINA_BROKER_PORT": "0",
                "SULINA_BROKER_ETCD": f"https://{member}",
                "SULINA_BROKER_STORAGE_NODE": f"storage-1=127.0.0.1:{storage.port}",
                "SULINA_BROKER_WRITE_QUORUM": "1",
                "SULINA_BROKER_ACK_QUORUM": "1",
                "TMPDIR": str(tmp_path),
            }
            assert await _publish_and_receive(told) == b"hello"
        finally:
            etcd.kill()


async def _publish_and_receive(told: Mapping[str, str]) -> bytes:
    """Through a broker's container with these settings; it stops cleanly, with exit code 0."""
    broker = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "broker_containers.container"),
        env={**os.environ, **told},
        stdout=asyncio.subprocess.PIPE,
    )
    assert broker.stdout is not None
    try:
        async with asyncio.timeout(_PATIENCE):
            ready = json.loads(await broker.stdout.readline())
            async with sulina.connect(ready["url"]) as client:
                async with client.producer("/default/tls") as producer:
                    await (await producer.send(b"hello"))
                async with client.consumer(
                    "/default/tls", "s", start=sulina.Start.earliest()
                ) as consumer:
                    message = await anext(aiter(consumer))
                    await consumer.ack(message)
                    payload = message.payload
            broker.terminate()
            assert await broker.wait() == 0
    finally:
        if broker.returncode is None:
            broker.kill()
            await broker.wait()
    return bytes(payload)
