"""Everything is encrypted: the servers run as the stack tells them to, with its certificates."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import trustme

import sulina
from broker_containers.health_check import connection
from functions.shared.brokers import BrokerClient
from functions.shared.http_event import HttpRequest
from sulina.errors import Refused, Retriable, SulinaError, Unavailable
from tests.infra.deployed_processes import ROOT_TOKEN, DeployedProcesses
from tests.infra.graph import Graph

pytestmark = pytest.mark.slow
CLIENTS = trustme.CA()
NEAR, FAR = "/default/near", "/default/far"


@pytest.fixture(scope="module")
def deployed(
    graph_of: Callable[[str], Graph], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[DeployedProcesses]:
    """Two brokers; the load balancer's name leads to the first."""
    folder = tmp_path_factory.mktemp("deployed")
    with DeployedProcesses(graph_of("mutual"), folder, _text(CLIENTS)) as running:
        yield running


@pytest.fixture(scope="module")
def authorities(graph_of: Callable[[str], Graph]) -> str:
    """What clients trust: an output of the stack."""
    return str(graph_of("mutual").outputs["authorities"])


def _text(authority: trustme.CA) -> str:
    return authority.cert_pem.bytes().decode()


def strictly(authorities: str) -> ssl.SSLContext:
    """As strict as newer versions of Python are by default."""
    context = ssl.create_default_context(cadata=authorities)
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    return context


async def publish(client: sulina.Client, topic: str) -> None:
    async with client.producer(topic) as producer:
        await (await producer.send(b"hello"))


async def spread(client: sulina.Client) -> None:
    """Give each broker one of the topics."""
    for topic, broker in ((NEAR, "broker-1"), (FAR, "broker-2")):
        await publish(client, topic)
        found = await client.admin("topic.lookup", {"topic": topic})
        while found["broker"] != broker:
            # The audit trail, which a move waits for, gets its owner a moment after the start.
            with contextlib.suppress(Retriable):
                await client.admin("topic.move", {"topic": topic, "broker": broker})
            found = await client.admin("topic.lookup", {"topic": topic})


async def test_clients_reach_each_broker_by_the_internal_name(
    deployed: DeployedProcesses, authorities: str
) -> None:
    url = deployed.url(deployed.shared_name)
    async with sulina.connect(url, token=ROOT_TOKEN, tls=strictly(authorities)) as client:
        await spread(client)
        for topic in (NEAR, FAR):
            await publish(client, topic)
            assert (await client.read(topic, sulina.Start.earliest())).batches


async def test_a_client_with_a_certificate_reaches_the_broker_behind_the_first(
    deployed: DeployedProcesses, authorities: str
) -> None:
    inside = deployed.url(deployed.shared_name)
    async with sulina.connect(inside, token=ROOT_TOKEN, tls=strictly(authorities)) as root:
        await spread(root)
        await root.admin.principals.grant("billing", [f"produce:{FAR}"])
    context = strictly(authorities)
    CLIENTS.issue_cert("client.example", common_name="billing").configure_cert(context)
    async with sulina.connect(deployed.url(deployed.domain), tls=context) as client:
        await publish(client, FAR)
        with pytest.raises(Refused, match="'billing' may not do this"):
            await publish(client, NEAR)
    stranger = strictly(authorities)
    trustme.CA().issue_cert("x.example", common_name="billing").configure_cert(stranger)
    with pytest.raises(SulinaError):
        async with sulina.connect(deployed.url(deployed.domain), tls=stranger):
            pass


def test_a_function_calls_brokers_over_tls(
    deployed: DeployedProcesses, authorities: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = socket.getaddrinfo

    def here(host: str, *more: Any, **most: Any) -> Any:
        return found("127.0.0.1" if host == deployed.shared_name else host, *more, **most)

    monkeypatch.setattr(socket, "getaddrinfo", here)
    port = deployed.brokers["broker-2"]["http_port"]
    request = HttpRequest("GET", "/api/v1/brokers")
    client = BrokerClient(f"https://{deployed.shared_name}:{port}", 10, authorities)
    client._tls.verify_flags |= ssl.VERIFY_X509_STRICT  # the default of the functions' Python
    answer = client.ask(request, ROOT_TOKEN)
    assert {each["broker"] for each in json.loads(answer.body)} == {"broker-1", "broker-2"}
    for url, trusted in (
        (f"http://{deployed.shared_name}:{port}", authorities),
        (f"https://{deployed.shared_name}:{port}", _text(trustme.CA())),
        (f"https://127.0.0.1:{port}", authorities),
    ):
        with pytest.raises(Unavailable):
            BrokerClient(url, 10, trusted).ask(request, ROOT_TOKEN)


def test_health_is_checked_over_tls(deployed: DeployedProcesses) -> None:
    for environment in deployed.environments.values():
        asked = connection(environment)
        asked.request("GET", "/health/live")
        assert asked.getresponse().status == 200
        asked.close()
        assert isinstance(asked.sock, ssl.SSLSocket | None)


def test_no_port_answers_without_tls(deployed: DeployedProcesses) -> None:
    ports = [
        running[name]
        for running in deployed.brokers.values()
        for name in ("port", "http_port", "grpc_port", "admin_port")
    ]
    for port in (*ports, *deployed.storage_ports):
        with socket.create_connection(("127.0.0.1", port), 30) as plain:
            plain.sendall(b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n")
            answer = _rest(plain)
        assert answer[:1] in (b"", b"\x15"), port  # closed, perhaps with a TLS alert


def _rest(plain: socket.socket) -> bytes:
    found = b""
    try:
        while chunk := plain.recv(4096):
            found += chunk
    except ConnectionResetError:
        pass
    return found


async def test_a_client_without_tls_is_refused(deployed: DeployedProcesses) -> None:
    url = f"sulina://127.0.0.1:{deployed.brokers['broker-1']['port']}"
    with pytest.raises(SulinaError):
        async with sulina.connect(url, token=ROOT_TOKEN):
            pass
