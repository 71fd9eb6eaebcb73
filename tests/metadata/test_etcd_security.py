"""``EtcdStore`` with TLS both ways, and with users and passwords, on real etcd."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import trustme

from sulina.errors import Refused, Unavailable
from sulina.metadata.etcd import EtcdSettings, EtcdStore
from sulina.metadata.etcd.members import EtcdMembers
from sulina.metadata.etcd.server import EtcdServers
from sulina.runtime.real_clock import RealClock
from sulina.runtime.tls_files import TlsFiles
from tests.metadata.harness import take
from tests.support.certificates import issue
from tests.support.etcd import etcd_servers

CLOCK = RealClock()


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[EtcdServers]:
    """An etcd that wants certificates, not started yet."""
    authority = trustme.CA()
    servers = etcd_servers(
        tmp_path / "etcd",
        tls=issue(authority, tmp_path, "server"),
        client_tls=issue(authority, tmp_path, "client"),
    )
    yield servers
    servers.kill()


async def test_everything_works_over_tls_with_a_certificate(secure: EtcdServers) -> None:
    await secure.start()
    store = await EtcdStore.open(secure.settings, CLOCK)
    revision = await store.put("/a", b"1")
    [event] = await take(store.watch("/a", from_revision=revision), 1)
    assert event.value == b"1"
    lease = await store.grant(5)
    assert await lease.keep_alive()
    await lease.revoke()
    await store.close()


async def test_new_certificates_are_used_for_new_connections(
    secure: EtcdServers, tmp_path: Path
) -> None:
    await secure.start()
    tls = secure.settings.tls
    assert tls is not None
    own = issue(trustme.CA(), tmp_path / "own", "client")  # nobody here knows its authority
    store = await EtcdStore.open(replace(secure.settings, tls=own), CLOCK)
    with pytest.raises(Refused, match="check the certificates"):
        await store.get("/a")
    for old, new in zip(
        (own.ca, own.certificate, own.key), (tls.ca, tls.certificate, tls.key), strict=True
    ):
        assert old and new
        old.write_bytes(new.read_bytes())
    assert await store.put("/a", b"1")
    await store.close()


async def test_strangers_are_refused_on_both_sides(secure: EtcdServers, tmp_path: Path) -> None:
    await secure.start()
    tls = secure.settings.tls
    assert tls is not None
    other = issue(trustme.CA(), tmp_path / "elsewhere", "other")
    store = await EtcdStore.open(replace(secure.settings, tls=other), CLOCK)
    with pytest.raises(Refused, match="check the certificates"):
        await store.get("/a")
    with pytest.raises(Refused, match="check the certificates"):
        await take(store.watch("/", from_revision=1), 1)
    await store.close()
    nobody = replace(secure.settings, tls=TlsFiles(tls.ca), call_seconds=0.5)
    store = await EtcdStore.open(nobody, CLOCK)
    with pytest.raises((Refused, Unavailable)):
        await store.get("/a")
    await store.close()


async def test_plain_http_to_a_tls_port_says_what_is_wrong(secure: EtcdServers) -> None:
    await secure.start()
    plain = replace(secure.settings, tls=None, call_seconds=0.5)
    store = await EtcdStore.open(plain, CLOCK)
    with pytest.raises((Refused, Unavailable), match=r"127\.0\.0\.1"):
        await store.get("/a")
    await store.close()


async def test_tls_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    missing = TlsFiles(tmp_path / "none.pem")
    with pytest.raises(Refused, match=r"none\.pem"):
        await EtcdStore.open(EtcdSettings.parse("https://127.0.0.1", tls=missing), CLOCK)


async def administer(servers: EtcdServers, rpc: str, **request: object) -> None:
    members = EtcdMembers(servers.settings, CLOCK)
    try:
        [endpoint] = servers.settings.endpoints
        await members.ask(endpoint, rpc, json.dumps(request))
    finally:
        await members.close()


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[EtcdServers]:
    """An etcd with the users root and broker, who may use what is below /sulina/."""
    servers = etcd_servers(tmp_path / "etcd")
    try:
        await servers.start()
        await administer(servers, "/auth/user/add", name="root", password="r00t")
        await administer(servers, "/auth/user/grant", user="root", role="root")
        await administer(servers, "/auth/role/add", name="sulina")
        permission = {"permType": "READWRITE", "key": "L3N1bGluYS8=", "range_end": "L3N1bGluYTA="}
        await administer(servers, "/auth/role/grant", name="sulina", perm=permission)
        await administer(servers, "/auth/user/add", name="broker", password="secret")
        await administer(servers, "/auth/user/grant", user="broker", role="sulina")
        await administer(servers, "/auth/enable")
        yield servers
    finally:
        servers.kill()


async def test_a_user_works_with_a_password_and_survives_lost_tokens(
    guarded: EtcdServers,
) -> None:
    broker = replace(guarded.settings, root="/sulina", user="broker", password="secret")
    store = await EtcdStore.open(broker, CLOCK)
    revision = await store.put("/a", b"1")
    watch = store.watch("/", from_revision=revision)
    await take(watch, 1)
    guarded.kill()
    await guarded.start()  # a restart forgets all tokens
    assert await store.put("/a", b"2") == revision + 1
    [event] = await take(watch, 1)
    assert event.value == b"2"
    lease = await store.grant(5)
    assert await lease.keep_alive()
    await store.put("/b", b"", lease=lease.id)
    await lease.revoke()
    await store.close()


async def test_wrong_passwords_and_foreign_keys_are_refused(guarded: EtcdServers) -> None:
    for user, password, root, why in (
        ("broker", "wrong", "/sulina", "user or the password"),
        ("nobody", "secret", "/sulina", "user or the password"),
        ("", "", "/sulina", "requires a user"),
        ("broker", "secret", "/other", "denied this user access"),
    ):
        settings = replace(guarded.settings, user=user, password=password, root=root)
        store = await EtcdStore.open(settings, CLOCK)
        with pytest.raises(Refused, match=why):
            await store.put("/a", b"1")
        with pytest.raises(Refused):
            await take(store.watch("/", from_revision=1), 1)
        await store.close()


async def test_a_user_without_authentication_in_etcd_is_refused(shared_etcd: EtcdServers) -> None:
    settings = replace(shared_etcd.settings, user="broker", password="secret")
    store = await EtcdStore.open(settings, CLOCK)
    with pytest.raises(Refused, match="no authentication enabled"):
        await store.put("/a", b"1")
    await store.close()


async def test_a_write_is_known_not_to_have_happened_while_no_token_can_be_had(
    guarded: EtcdServers,
) -> None:
    broker = replace(
        guarded.settings,
        root="/sulina",
        user="broker",
        password="secret",
        request_seconds=0.3,
        call_seconds=0.6,
    )
    store = await EtcdStore.open(broker, CLOCK)
    [member] = guarded.members.values()
    member.freeze()
    with pytest.raises(Unavailable):
        await store.put("/a", b"1")
    member.thaw()
    await store.close()
