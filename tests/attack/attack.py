"""What an attack is, and the list of all of them. Add one with ``@attack(...)``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import grpc

import sulina
from sulina import Client
from sulina.wire import commands_pb2 as pb
from sulina.wire.commands import PROTOCOL_VERSION, Command, pack

SECONDS = 60.0
"""How long an attacker waits for anything."""
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class AttackSucceeded(Exception):
    """The broker did not hold; the message says what happened."""


def must(held: bool, what: str) -> None:
    """Raise ``AttackSucceeded`` unless the broker held."""
    if not held:
        raise AttackSucceeded(what)


@dataclass(frozen=True, slots=True)
class Target:
    """The broker that is attacked."""

    url: str
    port: int
    http_port: int
    grpc_port: int
    admin_port: int
    pid: int
    root: str = field(repr=False)
    """The root token: for preparations, and to see whether honest clients are served."""
    log: Path
    data: Path
    """Its folder."""
    etcd: str = ""
    """Where etcd is, if the broker is one of a cluster."""
    opened: list[Streams] = field(default_factory=list, repr=False)
    """Connections of the attack, closed after it."""

    async def dial(self, port: int) -> Streams:
        return await asyncio.open_connection("127.0.0.1", port)

    async def dial_many(self, port: int, count: int, first: bytes = b"") -> list[Streams]:
        """Connections that send ``first`` and nothing else; those that are refused are left out."""
        dialled: list[Streams] = []
        for _ in range(count):
            try:
                dialled.append(await self.dial(port))
            except OSError:
                continue
            self.opened.append(dialled[-1])
            dialled[-1][1].write(first)
        return dialled

    def close_all(self) -> None:
        """Close the connections of ``dial_many``."""
        for _, writer in self.opened:
            writer.transport.abort()
        self.opened.clear()

    def connect(self, token: str = "") -> Client:
        """A client, of the root token unless one is given."""
        return sulina.connect(self.url, token=token or self.root, reconnect_timeout=10)

    async def token(self, principal: str, *grants: str) -> str:
        """A new token."""
        async with self.connect() as client:
            made = await client.admin(
                "token.create", {"principal": principal, "grants": list(grants)}
            )
        return str(made["token"])

    @asynccontextmanager
    async def channel(self, port: int) -> AsyncIterator[grpc.aio.Channel]:
        """A gRPC channel with a connection of its own."""
        options = [("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=options) as channel:
            yield channel

    async def http(self, verb: str, path: str, token: str = "", **more: Any) -> tuple[int, bytes]:
        """The status and body of one HTTP request on a connection of its own."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        timeout = aiohttp.ClientTimeout(total=SECONDS)
        async with (
            aiohttp.ClientSession(timeout=timeout, headers=headers) as session,
            session.request(verb, f"http://127.0.0.1:{self.http_port}{path}", **more) as answer,
        ):
            return answer.status, await answer.read()


async def status_of(call: Awaitable[Any]) -> grpc.StatusCode:
    """The status with which a gRPC call ends."""
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


def shown(token: str) -> list[tuple[str, str]]:
    """The gRPC metadata that presents a token."""
    return [("authorization", f"Bearer {token}")]


def hello(token: str) -> bytes:
    """The first command of a binary connection."""
    return pack(Command.CONNECT, 1, pb.Connect(protocol=PROTOCOL_VERSION, token=token))


Run = Callable[[Target], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Attack:
    """One attack. ``run`` raises ``AttackSucceeded`` if the broker does not hold."""

    name: str
    needs: str
    """What the attacker has: "nothing", or "a token" with certain rights."""
    what: str
    run: Run
    keeps: frozenset[str] = frozenset()
    """What it may leave behind, because its token allows to create it; see ``footprint``."""

    @property
    def by_stranger(self) -> bool:
        return self.needs == "nothing"


ATTACKS: dict[str, Attack] = {}
"""All attacks, by name, in the order in which they run."""


def attack(name: str, needs: str, what: str, *keeps: str) -> Callable[[Run], Run]:
    """Add a function to the list."""

    def add(run: Run) -> Run:
        assert name not in ATTACKS, name
        ATTACKS[name] = Attack(name, needs, what, run, frozenset(keeps))
        return run

    return add
