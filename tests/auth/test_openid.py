"""Tokens of an OpenID Connect provider: what is checked, and a real provider."""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import aiohttp
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256

import sulina
from broker_containers.assembly.running import DoorSettings
from broker_containers.assembly.single import run_embedded
from broker_containers.doors.listen import Listen
from broker_containers.security import oidc
from broker_containers.security.errors import Unauthenticated
from broker_containers.security.jwk import read_keys
from broker_containers.security.oidc import OidcProvider, UnknownKey, read_oidc_token
from broker_containers.security.settings import AuthSettings, OidcSettings
from sulina.errors import Refused, SulinaError
from sulina.runtime.real_clock import RealClock
from tests.auth.broker import ROOT, until
from tests.support.etcd import free_ports

PATIENCE = 60.0
NOW = int(time.time())
HOUR = 3600


# ---- tokens of an OpenID Connect provider: what is checked ----

RSA = rsa.generate_private_key(65537, 2048)
SETTINGS = OidcSettings("https://issuer.test", "sulina")
CLAIMS = {"iss": "https://issuer.test", "aud": "sulina", "sub": "mara", "exp": NOW + HOUR}


def encoded(data: bytes | dict[str, Any]) -> str:
    raw = data if isinstance(data, bytes) else json.dumps(data).encode()
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def number(value: int) -> str:
    return encoded(value.to_bytes((value.bit_length() + 7) // 8, "big"))


def rsa_key(key: rsa.RSAPrivateKey = RSA, **more: str) -> dict[str, str]:
    public = key.public_key().public_numbers()
    return {"kty": "RSA", "kid": "r", "n": number(public.n), "e": number(public.e), **more}


def signed(
    sign: Callable[[bytes], bytes], algorithm: str, claims: dict[str, Any], **header: Any
) -> str:
    parts = f"{encoded({'alg': algorithm, **header})}.{encoded(claims)}"
    return f"{parts}.{encoded(sign(parts.encode()))}"


def by_rsa(data: bytes) -> bytes:
    return RSA.sign(data, padding.PKCS1v15(), SHA256())


def principal(token: str, *keys: dict[str, str], settings: OidcSettings = SETTINGS) -> str:
    found = read_keys({"keys": list(keys)})
    return read_oidc_token(token, found, settings, NOW * 1_000_000).principal


def test_the_three_algorithms_are_accepted() -> None:
    curve, edwards = ec.generate_private_key(ec.SECP256R1()), ed25519.Ed25519PrivateKey.generate()

    def by_curve(data: bytes) -> bytes:
        r, s = decode_dss_signature(curve.sign(data, ec.ECDSA(SHA256())))
        return r.to_bytes(32, "big") + s.to_bytes(32, "big")

    public = curve.public_key().public_numbers()
    keys: list[dict[str, str]] = [
        rsa_key(),
        {"kty": "EC", "crv": "P-256", "kid": "e", "x": number(public.x), "y": number(public.y)},
        {
            "kty": "OKP",
            "crv": "Ed25519",
            "kid": "o",
            "x": encoded(edwards.public_key().public_bytes_raw()),
        },
    ]
    assert principal(signed(by_rsa, "RS256", CLAIMS, kid="r"), *keys) == "mara"
    assert principal(signed(by_curve, "ES256", CLAIMS, kid="e"), *keys) == "mara"
    assert principal(signed(edwards.sign, "EdDSA", CLAIMS, kid="o"), *keys) == "mara"
    assert principal(signed(edwards.sign, "EdDSA", CLAIMS), *keys) == "mara"
    for kid in ("r", "e"):
        with pytest.raises(Unauthenticated, match="another key"):
            principal(signed(edwards.sign, "EdDSA", CLAIMS, kid=kid), *keys)


def test_a_public_key_is_never_used_as_a_secret() -> None:
    import hashlib
    import hmac

    n = rsa_key()["n"].encode()
    for algorithm in ("HS256", "none", "RS512", "PS256", None):
        forged = signed(lambda data: hmac.digest(n, data, hashlib.sha256), str(algorithm), CLAIMS)
        with pytest.raises(Unauthenticated, match="only RS256, ES256, EdDSA"):
            principal(forged, rsa_key())


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"iss": "https://other.test"}, "issuer"),
        ({"aud": "other"}, "audience"),
        ({"exp": NOW - 120}, "expired"),
        ({"exp": None}, "never expires"),
        ({"exp": NOW + 48 * HOUR}, "more than 24 hours"),
        ({"nbf": NOW + 120}, "not valid yet"),
        ({"iat": NOW + 120}, "not valid yet"),
        ({"sub": ""}, "names no principal"),
        ({"sub": 5}, "names no principal"),
    ],
)
def test_claims_that_do_not_fit_are_refused(claims: dict[str, Any], why: str) -> None:
    with pytest.raises(Unauthenticated, match=why):
        principal(signed(by_rsa, "RS256", {**CLAIMS, **claims}, kid="r"), rsa_key())


def test_clocks_may_differ_a_little() -> None:
    for claims in ({"exp": NOW - 30}, {"nbf": NOW + 30}, {"iat": NOW + 30}):
        token = signed(by_rsa, "RS256", {**CLAIMS, **claims}, kid="r")
        assert principal(token, rsa_key()) == "mara"


def test_keys_that_are_too_short_or_for_something_else_are_not_used() -> None:
    token = signed(by_rsa, "RS256", CLAIMS, kid="r")
    weak = rsa_key(rsa.generate_private_key(65537, 1024))
    for key in (weak, rsa_key(use="enc"), rsa_key(alg="PS256"), {"kty": "oct", "k": "c2VjcmV0"}):
        with pytest.raises(UnknownKey):
            principal(token, key)
    assert principal(token, rsa_key(use="sig", alg="RS256"), weak | {"kid": "w"}) == "mara"
    with pytest.raises(Unauthenticated, match="critical"):
        principal(signed(by_rsa, "RS256", CLAIMS, kid="r", crit=["b64"]), rsa_key())


@pytest.mark.parametrize("token", ["..", "a.b.c", "e30.e30.", "é.b.c", "x" * 20_000 + ".b.c"])
def test_anything_else_is_not_a_token(token: str) -> None:
    with pytest.raises(Unauthenticated):
        principal(token, rsa_key())


# ---- a real provider ----


class Provider:
    """An OpenID Connect provider in a process of its own; each start makes a new key."""

    def __init__(self) -> None:
        [self.port] = free_ports(1)
        self.url = f"http://localhost:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        users = [
            {"sub": "mara", "groups": ["writers", "others"]},
            {"sub": "ion", "groups": []},
        ]
        claims = [word for user in users for word in ("--user-claims", json.dumps(user))]
        command = [sys.executable, "-m", "oidc_provider_mock", "--port", str(self.port), *claims]
        self._process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        async with asyncio.timeout(PATIENCE), aiohttp.ClientSession() as session:
            while True:
                try:
                    async with session.get(f"{self.url}/jwks") as answer:
                        if answer.status == 200:
                            return
                except aiohttp.ClientError:
                    await asyncio.sleep(0.05)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    async def token(self, user: str, client: str = "sulina") -> str:
        """What the provider gives a user who signs in."""
        query = {
            "client_id": client,
            "redirect_uri": "http://localhost/callback",
            "response_type": "code",
            "scope": "openid",
        }
        async with aiohttp.ClientSession() as session:
            async with session.post(
                f"{self.url}/oauth2/authorize",
                params=query,
                data={"sub": user},
                allow_redirects=False,
            ) as answer:
                [code] = parse_qs(urlsplit(answer.headers["Location"]).query)["code"]
            form = {
                "grant_type": "authorization_code",
                "code": code,
                "redirect_uri": query["redirect_uri"],
                "client_id": client,
                "client_secret": "secret",
            }
            async with session.post(f"{self.url}/oauth2/token", data=form) as answer:
                return str((await answer.json())["id_token"])


@pytest.fixture
def provider() -> Iterator[Provider]:
    made = Provider()
    yield made
    made.stop()


@asynccontextmanager
async def broker(folder: Path, provider: Provider) -> AsyncIterator[tuple[str, sulina.Client]]:
    settings = AuthSettings(ROOT, oidc=OidcSettings(provider.url, "sulina"))
    async with (
        run_embedded(folder, DoorSettings(Listen(port=0)), auth=settings) as server,
        sulina.connect(server.addresses.url, token=ROOT) as root,
    ):
        yield server.addresses.url, root


async def publish(url: str, token: str, topic: str = "/default/orders") -> None:
    async with (
        sulina.connect(url, token=token, connect_timeout=20) as client,
        client.producer(topic) as producer,
    ):
        await (await producer.send(b"hello"))


@pytest.mark.timeout(120)
async def test_users_of_a_provider_have_the_roles_of_their_groups(
    tmp_path: Path, provider: Provider
) -> None:
    await provider.start()
    async with broker(tmp_path, provider) as (url, root):
        await root.admin.roles.create("writer", ["Produce"])  # type: ignore[list-item]
        group: Any = {"principal_type": "group"}
        await root.admin.bindings.create("b", "writers", ["writer"], "cluster", **group)  # type: ignore[arg-type]
        await publish(url, await provider.token("mara"))
        with pytest.raises(Refused, match="unknown principal 'ion'"):
            await publish(url, await provider.token("ion"))
        await root.admin.principals.grant("ion", ["produce:/default/others"])
        await publish(url, await provider.token("ion"), "/default/others")
        with pytest.raises(Refused, match="may not do this"):
            await publish(url, await provider.token("ion"))
        with pytest.raises(Refused, match="audience"):
            await publish(url, await provider.token("mara", client="another"))
        # A binding of a group is not one of the principal with the same name.
        made = await root.admin.tokens.create("writers")
        with pytest.raises(Refused, match="may not do this"):
            await publish(url, made.token)


@pytest.mark.timeout(120)
async def test_rotated_keys_are_fetched_and_old_tokens_refused(
    tmp_path: Path, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oidc, "_LEAST_SECONDS", 0.2)
    await provider.start()
    async with broker(tmp_path, provider) as (url, root):
        await root.admin.principals.grant("mara", ["produce:/default/orders"])
        old = await provider.token("mara")
        await publish(url, old)
        provider.stop()
        await publish(url, old)  # the keys are kept while the provider can't be reached
        await provider.start()
        new = await provider.token("mara")

        async def accepted() -> bool:
            try:
                await publish(url, new)
            except SulinaError:
                return False
            return True

        await until(accepted)
        with pytest.raises(Refused, match="not signed with one of the provider's keys"):
            await publish(url, old)


@pytest.mark.timeout(120)
async def test_a_broker_starts_without_its_provider_and_finds_it_later(
    tmp_path: Path, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oidc, "_LEAST_SECONDS", 0.1)
    async with broker(tmp_path, provider) as (url, root):
        await root.admin.principals.grant("mara", ["produce:/default/orders"])
        await provider.start()
        token = await provider.token("mara")

        async def accepted() -> bool:
            try:
                await publish(url, token)
            except SulinaError:
                return False
            return True

        await until(accepted)


async def test_unknown_keys_are_asked_for_at_a_bounded_rate(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched = 0

    async def fetch(url: str) -> dict[str, Any]:
        nonlocal fetched
        fetched += 1
        return {
            "issuer": "https://issuer.test",
            "jwks_uri": "https://issuer.test/keys",
            "keys": [rsa_key()],
        }

    monkeypatch.setattr(oidc, "_fetch_json", fetch)
    async with OidcProvider(SETTINGS, RealClock(), lambda: None) as keys:
        assert fetched == 2
        for guess in range(1000):
            with pytest.raises(SulinaError):
                keys.read(signed(by_rsa, "RS256", CLAIMS, kid=str(guess)))
            await asyncio.sleep(0)
        assert fetched == 2
        assert keys.read(signed(by_rsa, "RS256", CLAIMS, kid="r")).principal == "mara"


@pytest.mark.parametrize("url", ["http://issuer.test", "ftp://localhost", "issuer.test"])
async def test_a_provider_needs_tls(url: str) -> None:
    with pytest.raises(Refused, match="https"):
        async with OidcProvider(OidcSettings(url, "sulina"), RealClock(), lambda: None):
            pass
