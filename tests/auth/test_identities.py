"""Who callers are: JSON Web Tokens, a root token that can be replaced, client certificates."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import pytest
import trustme
from grpc_reflection.v1alpha import reflection_pb2

import sulina
from broker_containers.assembly.running import DoorSettings, RunningBroker
from broker_containers.assembly.single import run_embedded
from broker_containers.commands.auth_options import SecurityOptions
from broker_containers.commands.listening import tls_context
from broker_containers.doors.danube import danube_pb2 as danube
from broker_containers.doors.danube.settings import DanubeListen
from broker_containers.doors.danube_admin import danube_admin_pb2 as admin
from broker_containers.doors.danube_admin.settings import AdminListen
from broker_containers.doors.listen import Listen
from broker_containers.security import root_token
from broker_containers.security.errors import Unauthenticated
from broker_containers.security.jwt import read_jwt
from broker_containers.security.root_token import OVERLAP_SECONDS, RootToken
from broker_containers.security.settings import AuthSettings, JwtSettings
from sulina.errors import Refused, SulinaError, Unavailable
from sulina.runtime.real_clock import RealClock
from sulina.runtime.tls_files import TlsFiles
from tests.auth.broker import JWT_KEY, ROOT, Guarded, json_web_token, until
from tests.danube.calls import status_of
from tests.support.certificates import issue
from tests.support.shell import Shell

Code = grpc.StatusCode

NOW = int(time.time())
HOUR = 3600


# ---- JSON Web Tokens with a shared key ----


def read(settings: JwtSettings, **claims: Any) -> str:
    token = json_web_token("billing", **claims)
    return read_jwt(token, settings, NOW * 1_000_000).principal


def test_a_token_that_lasts_too_long_is_refused() -> None:
    assert read(JwtSettings(JWT_KEY), seconds=23 * HOUR) == "billing"
    with pytest.raises(Unauthenticated, match=r"24 hours: .*earlier .danube-admin: --ttl"):
        read(JwtSettings(JWT_KEY), seconds=95 * 365 * 24 * HOUR)
    assert read(JwtSettings(JWT_KEY, max_seconds=40 * HOUR), seconds=30 * HOUR) == "billing"


def test_the_lifetime_counts_from_when_the_token_was_issued() -> None:
    with pytest.raises(Unauthenticated, match="more than 24 hours"):
        read(JwtSettings(JWT_KEY), seconds=HOUR, iat=NOW - 24 * HOUR)


def test_issuer_and_audience_must_match_if_they_are_configured() -> None:
    settings = JwtSettings(JWT_KEY, issuer="danube", audience="sulina")
    assert read(settings, aud="sulina") == "billing"
    assert read(settings, aud=["other", "sulina"]) == "billing"
    others: list[dict[str, Any]] = [{"aud": "other"}, {"aud": []}, {}, {"iss": "other"}]
    for wrong in others:
        with pytest.raises(Unauthenticated, match=r"issuer|audience"):
            read(settings, **wrong)


# ---- the root token ----


class MovedClock(RealClock):
    """A clock that a test can move."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def now(self) -> float:
        return super().now() + self.ahead


def test_a_replaced_root_token_is_accepted_for_a_while_and_presented_for_half_of_it() -> None:
    clock = MovedClock()
    token = RootToken("the first root token", clock)
    token._replace("the second root token")
    both = ["the first root token", "the second root token"]
    assert [token.accepts(each) for each in both] == [True, True]
    assert token.presented() == both[0]
    clock.ahead = OVERLAP_SECONDS / 2 + 1
    assert token.presented() == both[1]
    clock.ahead = OVERLAP_SECONDS + 1
    assert [token.accepts(each) for each in both] == [False, True]
    assert not token.accepts("")


@pytest.mark.timeout(100)
async def test_the_root_token_is_rotated_without_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(root_token, "_POLL_SECONDS", 0.02)
    monkeypatch.setattr(root_token, "OVERLAP_SECONDS", 2.0)
    file = tmp_path / "root"
    file.write_text(ROOT)
    auth = AuthSettings(ROOT, root_file=file)
    async with run_embedded(tmp_path / "data", DoorSettings(Listen(port=0)), auth=auth) as server:
        url = server.addresses.url

        async def allowed(token: str) -> bool:
            try:
                async with sulina.connect(url, token=token) as client:
                    await client.admin.topics.list()
            except Refused:
                return False
            except Unavailable:
                return True  # it was, and then the connection was closed with the old token's end
            return True

        async with sulina.connect(url, token=ROOT) as connected:
            file.write_text("short")
            await asyncio.sleep(0.2)
            assert await allowed(ROOT)
            file.write_text("another root token, as good as the first")
            await until(lambda: allowed("another root token, as good as the first"))
            await until(lambda: refused(allowed(ROOT)))
            assert await allowed("another root token, as good as the first")
            await until(lambda: refused(works(connected)))


async def refused(call: Any) -> bool:
    return not await call


async def works(client: sulina.Client) -> bool:
    try:
        await client.admin.topics.list()
    except SulinaError:
        return False
    return True


def test_start_warns_of_secrets_that_others_can_read_or_guess(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "root"
    SecurityOptions(auth=file).auth_settings()
    assert caplog.text == ""
    file.chmod(0o644)
    with caplog.at_level(logging.WARNING):
        SecurityOptions(auth=file).auth_settings()
    assert "chmod 600" in caplog.text
    file.write_text("only 20 characters..")
    SecurityOptions(auth=file).auth_settings()
    assert "only 20 characters" in caplog.text
    file.write_text("too short")
    with pytest.raises(Refused, match="at least 16"):
        SecurityOptions(auth=file).auth_settings()


async def test_reflection_needs_a_token(guarded: Guarded) -> None:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{guarded.admin_port}") as channel:
        call: Any = channel.stream_stream(
            "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
            request_serializer=reflection_pb2.ServerReflectionRequest.SerializeToString,
            response_deserializer=reflection_pb2.ServerReflectionResponse.FromString,
        )
        asking = call(metadata=[("authorization", f"Bearer {ROOT}")])
        await asking.write(reflection_pb2.ServerReflectionRequest(list_services=""))
        assert len((await asking.read()).list_services_response.service) > 5
        await asking.done_writing()
        assert await asking.code() is Code.OK
        assert await call().code() is Code.UNAUTHENTICATED  # before it has asked anything


# ---- client certificates ----


def client_context(authority: trustme.CA, files: TlsFiles | None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    if files is not None and files.certificate is not None:
        context.load_cert_chain(files.certificate, files.key)
    return context


@asynccontextmanager
async def tls_broker(folder: Path, authority: trustme.CA) -> AsyncIterator[RunningBroker]:
    server = issue(authority, folder / "tls", "server")
    assert server.certificate is not None and server.ca is not None
    tls = tls_context(str(server.certificate), str(server.key), str(server.ca))
    grpc_tls = tls_context(str(server.certificate), str(server.key), str(server.ca), http2=True)
    doors = DoorSettings(
        Listen(port=0, tls=tls),
        http=Listen(port=0, tls=tls),
        danube=DanubeListen(port=0, tls=grpc_tls),
        danube_admin=AdminListen(port=0, tls=grpc_tls),
    )
    async with run_embedded(folder / "data", doors, auth=AuthSettings(ROOT)) as running:
        yield running


async def grpc_codes(
    running: RunningBroker, authority: trustme.CA, files: TlsFiles | None
) -> list[grpc.StatusCode]:
    """What a caller with a certificate and without a token gets at the gRPC doors."""
    shown = None if files is None else files.read()
    credentials = grpc.ssl_channel_credentials(
        authority.cert_pem.bytes(),
        None if shown is None else shown.key,
        None if shown is None else shown.certificate,
    )
    found = []
    topic = "/default/orders"
    places = running.addresses
    for port, path, request in (
        (
            places.grpc_port,
            "/danube.Discovery/TopicPartitions",
            danube.TopicLookupRequest(topic=topic),
        ),
        (
            places.danube_admin_port,
            "/danube_admin.TopicAdmin/DescribeTopic",
            admin.DescribeTopicRequest(name=topic),
        ),
    ):
        async with grpc.aio.secure_channel(f"127.0.0.1:{port}", credentials) as channel:
            call: Any = channel.unary_unary(path)
            found.append(await status_of(call(request.SerializeToString())))
    return found


async def test_a_certificate_is_an_identity(tmp_path: Path) -> None:
    authority = trustme.CA()
    async with tls_broker(tmp_path, authority) as running:
        url, http = running.addresses.url, running.addresses.http_url
        token_only = client_context(authority, None)
        async with sulina.connect(url, token=ROOT, tls=token_only) as root:
            await root.admin.principals.grant("billing", ["produce:/default/orders", "cluster:*"])
            billing = issue(authority, tmp_path / "tls", "billing")
            mine = client_context(authority, billing)
            async with (
                sulina.connect(url, tls=mine) as client,
                client.producer("/default/orders") as producer,
            ):
                await (await producer.send(b"hello"))
                with pytest.raises(Refused, match="'billing' may not do this"):
                    await client.admin.topics.delete("/default/orders")
                async with aiohttp.ClientSession() as session:
                    async with session.get(f"{http}/api/v1/tokens", ssl=mine) as answer:
                        assert answer.status == 200
                    async with session.get(f"{http}/api/v1/tokens", ssl=token_only) as answer:
                        assert answer.status == 401
                assert await grpc_codes(running, authority, billing) == [Code.OK] * 2
                assert await grpc_codes(running, authority, None) == [Code.UNAUTHENTICATED] * 2
                # What the principal loses, a connected client loses, too.
                await root.admin.principals.delete("billing")
                await until(lambda: refused(works(client)))
            for name in ("nobody", "root"):
                other = client_context(authority, issue(authority, tmp_path / "tls", name))
                with pytest.raises(Refused, match=r"unknown principal|reserved"):
                    async with sulina.connect(url, tls=other):
                        pass
        with pytest.raises(Refused, match="requires a token"):
            async with sulina.connect(url, tls=token_only):
                pass


async def test_the_command_line_presents_a_certificate(tmp_path: Path) -> None:
    authority = trustme.CA()
    billing = issue(authority, tmp_path / "tls", "billing")
    async with tls_broker(tmp_path, authority) as running:
        trusted = ("--url", running.addresses.url, "--tls-ca", str(billing.ca))
        shown = ("--tls-cert", str(billing.certificate), "--tls-key", str(billing.key))
        with Shell() as shell:
            rights = "produce:/default/orders"
            await shell(*trusted, "--token", ROOT, "security", "grant", "billing", rights)
            mine = await shell(*trusted, "whoami", *shown)
            assert mine.stdout.startswith(f"billing: {rights}, until ")
            token_first = await shell(*trusted, *shown, "--token", ROOT, "whoami")
            assert token_first.stdout == "root: admin:*\n"
            without_tls = await shell("--url", "sulina://127.0.0.1:1", *shown, "whoami", code=1)
            assert "sulina+tls://" in without_tls.stderr
            alone = await shell(*trusted, *shown[2:], "whoami", code=1)
            assert "--tls-key needs --tls-cert" in alone.stderr
            mismatch = await shell(*trusted, *shown[:3], str(billing.ca), "whoami", code=1)
            assert "must match the certificate" in mismatch.stderr


async def test_a_certificate_of_another_authority_is_not_accepted(tmp_path: Path) -> None:
    authority, other = trustme.CA(), trustme.CA()
    async with tls_broker(tmp_path, authority) as running:
        context = client_context(authority, issue(other, tmp_path / "other", "billing"))
        with pytest.raises(SulinaError):
            async with sulina.connect(
                running.addresses.url, tls=context, connect_timeout=2, reconnect_timeout=0.1
            ):
                pass
