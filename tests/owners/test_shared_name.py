"""Brokers behind a load balancer that share a name inside their network, with TLS at every door."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
import pytest_asyncio
import trustme

import sulina
from broker_containers.assembly.running import DoorSettings
from broker_containers.commands.listening import tls_context
from broker_containers.doors.danube import danube_pb2 as pb
from broker_containers.doors.danube.settings import DanubeListen
from broker_containers.doors.listen import Listen
from broker_containers.security.settings import AuthSettings
from sulina.errors import Refused, SulinaError
from sulina.names import TopicName
from sulina.runtime.tls_files import TlsFiles
from tests.owners.brokers import QUICK, Brokers
from tests.support.certificates import issue

pytestmark = pytest.mark.asyncio(loop_scope="session")
INSIDE, OUTSIDE = "brokers.inside", "brokers.example"
ROOT = "the root token of these brokers"
NEAR, FAR = "/default/near", "/default/far"
NOWHERE = f"sulina+tls://{OUTSIDE}@127.0.0.1:9"
"""A load balancer that nobody inside the network reaches."""


class SecureBrokers(Brokers):
    """Their certificates are for two names, none of which is their address."""

    def __init__(self, folder: Path, authority: trustme.CA) -> None:
        files = issue(authority, folder, "brokers", INSIDE, OUTSIDE)
        self.files = files
        self._files = str(files.certificate), str(files.key), str(files.ca)
        super().__init__(
            replace(QUICK, shared_name=INSIDE),
            auth=AuthSettings(ROOT),
            trusted=TlsFiles(files.ca).context(),
        )

    def door_settings(self, name: str) -> DoorSettings:
        danube = DanubeListen(
            port=0,
            tls=tls_context(*self._files, http2=True),
            proxy_url=f"https://{OUTSIDE}:6650",
            shared_name=INSIDE,
            peer_authorities=self.files.ca,
        )
        return DoorSettings(Listen(port=0, tls=tls_context(*self._files)), danube=danube)

    def at(self, host: str, broker: str) -> str:
        """A broker's URL for clients that know it by ``host``."""
        return f"sulina+tls://{host}@127.0.0.1:{self.doors[broker].addresses.port}"


class Place:
    """Two brokers, each with a topic, and certificates of clients."""

    def __init__(self, brokers: SecureBrokers, folder: Path, authority: trustme.CA) -> None:
        self.brokers = brokers
        self._folder = folder
        self._authority = authority

    def context(self, name: str = "") -> ssl.SSLContext:
        """A client's; with a certificate, if it has a name."""
        context = ssl.create_default_context()
        self._authority.configure_trust(context)
        if name:
            files = issue(self._authority, self._folder, name)
            assert files.certificate is not None
            context.load_cert_chain(files.certificate, files.key)
        return context

    def connect(self, host: str, *, token: str = "", name: str = "") -> sulina.Client:
        """A client that reaches the broker "one" under ``host``."""
        url = self.brokers.at(host, "one")
        return sulina.connect(url, token=token, tls=self.context(name), reconnect_timeout=5)


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def place(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Place]:
    authority, folder = trustme.CA(), tmp_path_factory.mktemp("tls")
    async with SecureBrokers(folder, authority) as brokers:
        found = Place(brokers, folder, authority)
        await brokers.start("one", "two", proxy_url=NOWHERE)
        async with found.connect(INSIDE, token=ROOT) as root:
            for topic, owner in ((NEAR, "one"), (FAR, "two")):
                await root.admin("topic.create", {"topic": topic})
                await publish(root, topic)
                tables = brokers.running["one"].tables
                name = TopicName.parse(topic)
                if (now := tables.owner(name)) is None or now.broker != owner:
                    await root.admin("topic.move", {"topic": topic, "broker": owner})
                while (now := tables.owner(name)) is None or (now.broker, now.to) != (owner, ""):
                    await tables.prefix_cache.change()
            yield found


async def publish(client: sulina.Client, topic: str) -> None:
    async with client.producer(topic) as producer:
        await (await producer.send(b"hello"))


async def test_inside_the_network_clients_are_sent_to_brokers_themselves(place: Place) -> None:
    async with place.connect(INSIDE, token=ROOT) as client:
        await publish(client, NEAR)
        await publish(client, FAR)
        found = await client.admin("topic.lookup", {"topic": FAR})
        assert found["url"] == place.brokers.at(INSIDE, "two")


async def test_clients_outside_are_sent_to_the_load_balancer(place: Place) -> None:
    """Which does not answer here."""
    async with place.connect(OUTSIDE, token=ROOT) as client:
        with pytest.raises(SulinaError, match=r"127\.0\.0\.1:9"):
            await client.read(FAR, sulina.Start.earliest())


async def test_a_broker_is_known_by_its_name_and_not_by_its_address(place: Place) -> None:
    url = place.brokers.at(INSIDE, "one").replace(f"{INSIDE}@", "")
    with pytest.raises(Refused, match="no TLS connection"):
        async with sulina.connect(url, token=ROOT, tls=place.context()):
            pass


async def test_a_certificate_counts_at_the_broker_behind_the_one_that_saw_it(place: Place) -> None:
    async with place.connect(INSIDE, token=ROOT) as root:
        await root.admin.principals.grant("shipping", [f"produce:{FAR}"])
    with leading_to_one(place.brokers):
        async with place.connect(OUTSIDE, name="shipping") as client:
            await publish(client, FAR)
            with pytest.raises(Refused, match="'shipping' may not do this"):
                await publish(client, NEAR)


async def test_only_brokers_can_say_whose_certificate_they_saw(place: Place) -> None:
    """A client that claims to be somebody keeps the rights of its own token."""
    async with place.connect(INSIDE, token=ROOT) as root:
        await root.admin.principals.grant("billing", [f"produce:{NEAR}"])
        made = await root.admin("token.create", {"principal": "nobody", "grants": ["lookup:*"]})
    for metadata in (
        (("authorization", f"Bearer {made['token']}"),),
        (),
    ):
        claimed = (*metadata, ("x-sulina-principal", "billing"), ("x-sulina-until-us", "9" * 18))
        code = await _create_producer(place, INSIDE, NEAR, claimed)
        assert code in (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED)


@pytest.mark.parametrize("host", [INSIDE, OUTSIDE])
async def test_calls_of_danubes_clients_are_forwarded_over_tls(place: Place, host: str) -> None:
    token = (("authorization", f"Bearer {ROOT}"),)
    assert await _create_producer(place, host, FAR, token) is grpc.StatusCode.OK
    found = await _lookup(place, host, token)
    port = place.brokers.doors["one"].addresses.grpc_port
    shown = f"https://{INSIDE}:{port}" if host == INSIDE else f"https://{OUTSIDE}:6650"
    assert (found.connect_url, found.proxy) == (shown, True)


async def test_danubes_clients_with_a_certificate_are_forwarded_too(place: Place) -> None:
    async with place.connect(INSIDE, token=ROOT) as root:
        await root.admin.principals.grant("auditing", [f"produce:{FAR}"])
    assert await _create_producer(place, OUTSIDE, FAR, (), "auditing") is grpc.StatusCode.OK
    code = await _create_producer(place, OUTSIDE, NEAR, (), "auditing")
    assert code is grpc.StatusCode.PERMISSION_DENIED


@contextmanager
def leading_to_one(brokers: SecureBrokers) -> Iterator[None]:
    """The load balancer's address leads to the broker "one" meanwhile."""
    owners = [node.ownership for node in brokers.running.values()]
    before = owners[0].settings
    for each in owners:
        each.settings = replace(before, proxy_url=brokers.at(OUTSIDE, "one"))
    try:
        yield
    finally:
        for each in owners:
            each.settings = before


def _channel(place: Place, host: str, name: str = "") -> grpc.aio.Channel:
    files = place.brokers.files
    shown = None
    if name:
        shown = issue(place._authority, place._folder, name).read()
    assert files.ca is not None
    credentials = grpc.ssl_channel_credentials(
        files.ca.read_bytes(),
        None if shown is None else shown.key,
        None if shown is None else shown.certificate,
    )
    port = place.brokers.doors["one"].addresses.grpc_port
    options = [
        ("grpc.ssl_target_name_override", host),
        ("grpc.default_authority", f"{host}:{port}"),
    ]
    return grpc.aio.secure_channel(f"127.0.0.1:{port}", credentials, options=options)


async def _create_producer(
    place: Place, host: str, topic: str, metadata: tuple[tuple[str, str], ...], name: str = ""
) -> grpc.StatusCode:
    request = pb.ProducerRequest(
        producer_name="p", topic_name=topic, dispatch_strategy=pb.DispatchStrategy.Reliable
    )
    async with _channel(place, host, name) as channel:
        call: Any = channel.unary_unary("/danube.ProducerService/CreateProducer")
        made = call(request.SerializeToString(), metadata=metadata)
        code: grpc.StatusCode = await made.code()
        return code


async def _lookup(
    place: Place, host: str, metadata: tuple[tuple[str, str], ...]
) -> pb.TopicLookupResponse:
    async with _channel(place, host) as channel:
        call: Any = channel.unary_unary(
            "/danube.Discovery/TopicLookup",
            response_deserializer=pb.TopicLookupResponse.FromString,
        )
        found: pb.TopicLookupResponse = await call(
            pb.TopicLookupRequest(topic=FAR).SerializeToString(), metadata=metadata
        )
        return found
