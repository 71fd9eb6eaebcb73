"""TiKV with TLS: who is let in, and what those are told who are not."""

from __future__ import annotations

import asyncio
import random
import socket
import ssl
import threading
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path

import pytest
import trustme

from sulina.errors import Refused, Unavailable
from sulina.objects.opening import open_store
from sulina.objects.store import ObjectSettings, ObjectStore
from sulina.runtime.tls_files import TlsFiles
from tests.objects.chunks import chunks_of
from tests.objects.tikv_clocks import QuickClock
from tests.objects.tikv_cluster import TikvCluster, Tls
from tests.support.certificates import issue


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
async def cluster(authority: trustme.CA) -> AsyncIterator[TikvCluster]:
    """Its servers have certificates, and so must its clients."""
    issued = authority.issue_cert("127.0.0.1")
    chain = b"".join(each.bytes() for each in issued.cert_chain_pems)
    tls = Tls(issued.private_key_pem.bytes(), chain, authority.cert_pem.bytes())
    async with TikvCluster(tls) as made:
        yield made


@pytest.fixture
def files(authority: trustme.CA, tmp_path: Path) -> TlsFiles:
    """Those of a client that the cluster accepts."""
    return issue(authority, tmp_path / "good", "client")


def opened(address: str, **options: Path | None) -> AbstractAsyncContextManager[ObjectStore]:
    query = "&".join(f"{name}={path}" for name, path in options.items())
    settings = ObjectSettings(attempts=2)
    url = f"tikv://{address}/tls?{query}"
    return open_store(url, QuickClock(), random.Random(1), settings=settings)


async def test_with_its_authority_and_a_certificate_objects_are_written_and_read(
    cluster: TikvCluster, files: TlsFiles
) -> None:
    async with opened(cluster.address, ca=files.ca, cert=files.certificate, key=files.key) as store:
        await store.put("a", chunks_of(b"hello"))
        assert await store.get("a", 0, 5) == b"hello"


async def test_an_authority_that_did_not_issue_the_servers_certificate_is_told_at_once(
    cluster: TikvCluster, files: TlsFiles, tmp_path: Path
) -> None:
    wrong = issue(trustme.CA(), tmp_path / "wrong", "client")
    async with opened(cluster.address, ca=wrong.ca, cert=files.certificate, key=files.key) as store:
        with pytest.raises(Refused, match=r"^the certificate of 127.* is not trusted.* with ca= "):
            await store.put("a", chunks_of(b"hello"))
    assert cluster.seen == []


async def test_a_certificate_of_another_host_is_told_at_once(
    authority: trustme.CA, files: TlsFiles
) -> None:
    issued = authority.issue_cert("pd.example.org")
    tls = Tls(issued.private_key_pem.bytes(), issued.cert_chain_pems[0].bytes())
    async with TikvCluster(tls) as cluster, opened(cluster.address, ca=files.ca) as store:
        with pytest.raises(Refused, match=r"^the certificate of 127.* is for another host"):
            await store.info("a")


async def test_a_missing_or_foreign_certificate_of_the_client_is_told(
    cluster: TikvCluster, files: TlsFiles, tmp_path: Path
) -> None:
    foreign = issue(trustme.CA(), tmp_path / "foreign", "client")
    for options in (
        {"ca": files.ca},
        {"ca": files.ca, "cert": foreign.certificate, "key": foreign.key},
    ):
        async with opened(cluster.address, **options) as store:
            with pytest.raises(Unavailable, match=r"it accepts with cert= and key=$"):
                await store.put("a", chunks_of(b"hello"))
    assert cluster.seen == []


async def test_replaced_files_are_used_and_connections_with_those_long_replaced_end(
    cluster: TikvCluster, authority: trustme.CA, tmp_path: Path
) -> None:
    place = tmp_path / "rotated"
    files = issue(authority, place, "client")
    async with opened(cluster.address, ca=files.ca, cert=files.certificate, key=files.key) as store:
        await store.put("0", chunks_of(b"hello"))
        made_by_one = cluster.connections
        for number in range(1, 5):
            issue(authority, place, "client")
            await store.put(f"{number}", chunks_of(b"hello"))
        async with asyncio.timeout(60):
            while cluster.connections > 2 * made_by_one:  # those of now, and those before them
                await asyncio.sleep(0.01)

        issue(trustme.CA(), place, "client")
        with pytest.raises(Refused, match="is not trusted"):
            await store.put("refused", chunks_of(b"hello"))
        issue(authority, place, "client")
        assert len(await store.list("")) == 5


async def test_a_client_certificate_that_is_rejected_after_the_handshake_is_told(
    authority: trustme.CA, files: TlsFiles, tmp_path: Path
) -> None:
    """As servers in Go do, PD among them: in TLS 1.3 the client has finished by then."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    context.set_alpn_protocols(["h2"])
    authority.configure_trust(context)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    foreign = issue(trustme.CA(), tmp_path / "foreign", "client")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_shake_hands, args=(listener, context), daemon=True).start()
        address = "127.0.0.1:{1}".format(*listener.getsockname())
        for options in (
            {"ca": files.ca},
            {"ca": files.ca, "cert": foreign.certificate, "key": foreign.key},
        ):
            async with opened(address, **options) as store:
                with pytest.raises(Unavailable, match=r"it accepts with cert= and key=$"):
                    await store.info("a")


def _shake_hands(listener: socket.socket, context: ssl.SSLContext) -> None:
    """With each client, until the listener is closed."""
    with suppress(OSError):
        while True:
            connection, _ = listener.accept()
            with suppress(ssl.SSLError), connection:
                context.wrap_socket(connection, server_side=True)


async def test_tls_on_one_side_only_is_told(
    cluster: TikvCluster, tikv_cluster: TikvCluster, files: TlsFiles
) -> None:
    async with opened(cluster.address) as store:
        with pytest.raises(Unavailable, match="if the cluster requires TLS, name its authority"):
            await store.info("a")
    async with opened(tikv_cluster.address, ca=files.ca) as store:
        with pytest.raises(Refused, match=r"does not use TLS: remove ca="):
            await store.info("a")
