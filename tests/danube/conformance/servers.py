"""The servers that Danube's tests run against: one process, a cluster, and one with TLS and tokens.

All are real processes of this checkout on 127.0.0.1, with new data. Clients find them on port 6650,
since some of Danube's tests know no other; the other ports are free ones.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import trustme

import sulina
from tests.support.local_cluster import ClusterUp
from tests.support.server import SulinaProcess

ONE: Final = "one"
REDIRECT: Final = "redirect"
PROXY: Final = "proxy"
KINDS: Final = (ONE, REDIRECT, PROXY)
SECURED: Final = "secured"
"""Used by the security tests alone, whatever else is chosen."""
PORT: Final = 6650
_CLUSTER = ("--brokers", "3", "--storage", "3", "--etcd", "1")
TOPIC = "/default/security-test"
"""The topic that the security tests use: the authorized principal may produce and consume it."""
AUTHORIZED = "test-app"
DENIED = "unprivileged-app"


@dataclass(frozen=True, slots=True)
class Servers:
    """Where tests find them."""

    kind: str
    url: str
    """For clients."""
    admin_url: str


def port_in_use() -> bool:
    """Whether another process listens on the port that clients use."""
    with socket.socket() as found:
        return found.connect_ex(("127.0.0.1", PORT)) == 0


@contextmanager
def started(kind: str, folder: Path, rules: str) -> Iterator[Servers]:
    """Servers of one kind, until the end of the block; ``folder`` keeps data and logs.

    ``rules`` is how they compare JSON Schemas.
    """
    data = folder / "data"
    with ExitStack() as stack:
        if kind == ONE:
            one = SulinaProcess(data)
            one.grpc_port = PORT
            stack.enter_context(one)
            url, admin_port = one.url, one.admin_port
        else:
            redirect = ("--grpc-redirect",) if kind == REDIRECT else ()
            options = (*_CLUSTER, "--grpc-port", str(PORT), *redirect)
            up = stack.enter_context(ClusterUp(data, *options))
            url, admin_port = up.url, up.ready["brokers"][0]["admin_port"]
        asyncio.run(_set_rules(url, rules))
        yield Servers(kind, f"http://127.0.0.1:{PORT}", f"http://127.0.0.1:{admin_port}")


async def _set_rules(url: str, rules: str) -> None:
    async with sulina.connect(url) as client:
        await client.admin("config.set", {"name": "broker.json_schema_rules", "value": rules})


@dataclass(frozen=True, slots=True)
class Secured:
    """A server with TLS that needs JSON Web Tokens, which ``key`` signs."""

    url: str
    authority: Path
    key: str


@contextmanager
def secured(folder: Path) -> Iterator[Secured]:
    """As Danube's tests of its security want it: a topic, and a principal who may use it."""
    authority = trustme.CA()
    trusted, certificate, root, key_file = (
        folder / name for name in ("ca.pem", "broker.pem", "root.token", "jwt.key")
    )
    authority.cert_pem.write_to_path(str(trusted))
    issued = authority.issue_cert("localhost", "127.0.0.1")
    issued.private_key_and_cert_chain_pem.write_to_path(str(certificate))
    key = secrets.token_hex(32)
    key_file.write_text(key)
    key_file.chmod(0o600)
    options = (
        *("--tls-cert", str(certificate), "--auth", str(root)),
        # Danube's tool makes tokens for a year.
        *("--auth-jwt-key", str(key_file), "--auth-jwt-max-age", "366d"),
    )
    with SulinaProcess(folder / "data", *options) as one:
        asyncio.run(_allow(one.url, root.read_text().strip(), trusted))
        yield Secured(f"https://127.0.0.1:{one.grpc_port}", trusted, key)


async def _allow(url: str, token: str, trusted: Path) -> None:
    role = {"role": "user", "permissions": ["Produce", "Consume", "Lookup"]}
    binding = {
        "binding": "user",
        "principal": AUTHORIZED,
        "principal_type": "service_account",
        "roles": ["user"],
        "scope": "topic",
        "resource": TOPIC,
    }
    async with sulina.connect(url, token=token, tls=trusted) as client:
        await client.admin("topic.create", {"topic": TOPIC, "delivery": "non_reliable"})
        await client.admin("role.create", role)
        await client.admin("binding.create", binding)
