"""A cluster of processes as ``sulina up`` runs it, with TLS and tokens, and etcd restarting."""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
from pathlib import Path
from typing import Any

import grpc
import pytest
import trustme

import sulina
from sulina.metadata.etcd.server import find_etcd
from tests.auth.broker import bearer
from tests.danube.stock import Stock, flow
from tests.danube_admin.client import AdminClient
from tests.http.client import http_client
from tests.support.local_cluster import ClusterUp

TOPIC = "/default/guarded"


async def admin_addresses(port: int, trusted: bytes, token: str) -> dict[str, str]:
    """Where Danube's admin tools find the brokers, as one of them tells."""
    credentials = grpc.composite_channel_credentials(
        grpc.ssl_channel_credentials(trusted), grpc.access_token_call_credentials(token)
    )
    async with grpc.aio.secure_channel(f"127.0.0.1:{port}", credentials) as channel:
        found = await AdminClient(channel)("BrokerAdmin/ListBrokers")
    return {row.broker_id: row.admin_addr for row in found.brokers}


@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_a_stock_client_with_tls_and_a_token_survives_a_restart_of_etcd(
    stock: Stock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_etcd()
    authority = trustme.CA()
    trusted, broker_pem, root_file = (tmp_path / name for name in ("ca.pem", "b.pem", "root"))
    authority.cert_pem.write_to_path(str(trusted))
    issued = authority.issue_cert("localhost", "127.0.0.1")
    issued.private_key_and_cert_chain_pem.write_to_path(str(broker_pem))
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))  # by which brokers trust each other
    counts = ("--brokers", "2", "--storage", "1", "--etcd", "1")
    secured = ("--tls-cert", str(broker_pem), "--auth", str(root_file))
    with ClusterUp(tmp_path / "data", *counts, *secured) as cluster:
        root = root_file.read_text().strip()
        assert root_file.stat().st_mode & 0o077 == 0
        brokers: list[dict[str, Any]] = cluster.ready["brokers"]
        ports = {row["id"]: row["admin_port"] for row in brokers}
        addresses = {name: f"https://127.0.0.1:{port}" for name, port in ports.items()}
        for port in ports.values():
            assert await admin_addresses(port, trusted.read_bytes(), root) == addresses
        async with sulina.connect(cluster.url, token=root, tls=trusted) as native:
            grants = [f"produce:{TOPIC}", f"consume:{TOPIC}"]
            made = await native.admin("token.create", {"principal": "app", "grants": grants})
        url = f"https://127.0.0.1:{brokers[0]['grpc_port']}"
        client = await stock.client(url, ca=trusted, token=made["token"])
        producer = await client.producer(TOPIC)
        consumer = await client.consumer(TOPIC, "SHARED")
        await flow(producer, consumer, "before")
        # One of them is not the owner, and passes it on as a broker may.
        trusting = ssl.create_default_context(cafile=str(trusted))
        for row in brokers:
            async with http_client(row["http_url"]) as http:
                path = f"/api/v1/topics{TOPIC}/messages"
                headers = bearer(made["token"])
                await http.ok("POST", path, data=b"over HTTP", headers=headers, ssl=trusting)
        os.kill(cluster.pids["etcd-1"], signal.SIGKILL)
        await flow(producer, consumer, "while etcd is away")
        while (await asyncio.to_thread(cluster.event))["event"] != "started":
            pass
        await flow(producer, consumer, "after")
