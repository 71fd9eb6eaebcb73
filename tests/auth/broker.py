"""A broker in this process that asks for tokens at every door."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sulina
from broker_containers.assembly.running import DoorSettings, RunningBroker
from broker_containers.assembly.single import run_embedded
from broker_containers.audit.trail import AuditSettings
from broker_containers.broker.settings import BrokerSettings
from broker_containers.doors.danube.settings import DanubeListen, DanubeSettings
from broker_containers.doors.danube_admin.settings import AdminListen
from broker_containers.doors.listen import Listen
from broker_containers.security.settings import AuthSettings, JwtSettings
from sulina import Client
from tests.http.client import Http, http_client

ROOT = "the root token of these tests"
JWT_KEY = b"a key for JSON Web Tokens"
AUTH = AuthSettings(ROOT, JwtSettings(JWT_KEY))
AUDIT = AuditSettings()


@dataclass(frozen=True, slots=True)
class Guarded:
    """The broker, and clients of its doors."""

    server: RunningBroker
    root: Client
    """A client that may do everything."""
    http: Http
    grpc_url: str
    admin_port: int

    def connect(self, token: str) -> Client:
        """A client that presents a token."""
        return sulina.connect(self.server.addresses.url, token=token, reconnect_timeout=5)

    async def token(self, principal: str, *grants: str, **more: Any) -> str:
        """A new token's text."""
        return str((await self.made(principal, *grants, **more))["token"])

    async def made(self, principal: str, *grants: str, **more: Any) -> dict[str, Any]:
        """A new token, with its id."""
        arguments = {"principal": principal, "grants": list(grants), **more}
        made: dict[str, Any] = await self.root.admin("token.create", arguments)
        return made


@asynccontextmanager
async def guarded_broker(
    folder: Path,
    danube: DanubeListen | None = None,
    settings: BrokerSettings | None = None,
    audit: AuditSettings | None = AUDIT,
) -> AsyncIterator[Guarded]:
    """With a door for stock clients as ``danube`` says."""
    door = danube or DanubeListen(port=0, settings=DanubeSettings(reopen_seconds=0.05))
    async with (
        run_embedded(
            folder,
            DoorSettings(
                Listen(port=0), http=Listen(port=0), danube_admin=AdminListen(port=0), danube=door
            ),
            settings,
            auth=AUTH,
            audit=audit,
        ) as server,
        sulina.connect(server.addresses.url, token=ROOT) as root,
        http_client(f"http://127.0.0.1:{server.addresses.http_port}") as http,
    ):
        assert server.addresses.danube_admin_port is not None
        url = f"{door.scheme}://127.0.0.1:{server.addresses.grpc_port}"
        yield Guarded(server, root, http, url, server.addresses.danube_admin_port)


def bearer(token: str) -> dict[str, str]:
    """The header that presents a token."""
    return {"Authorization": f"Bearer {token}"}


def json_web_token(
    name: str,
    *,
    seconds: float = 600,
    key: bytes = JWT_KEY,
    algorithm: str = "HS256",
    **more: object,
) -> str:
    """As Danube's tools make them."""
    claims = {
        "iss": "danube",
        "sub": name,
        "principal_type": "service_account",
        "principal_name": name,
        "exp": int(time.time() + seconds),
        **more,
    }
    parts = [_encoded(json.dumps(each).encode()) for each in ({"alg": algorithm}, claims)]
    signature = hmac.new(key, ".".join(parts).encode(), hashlib.sha256).digest()
    return ".".join([*parts, _encoded(signature)])


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


async def until(check: Callable[[], Awaitable[bool]]) -> None:
    """Wait until ``check`` says yes; at most a minute."""
    async with asyncio.timeout(60.0):
        while not await check():
            await asyncio.sleep(0.05)
