"""A broker's container, etcd and a storage node that trust only one authority."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import trustme

import sulina
from storage_grpc.service.tls import ServerTls
from tests.storage_service.serving import serving
from tests.support.certificates import issue
from tests.support.etcd import etcd_servers

_PATIENCE = 60.0


async def test_a_broker_whose_certificates_come_as_secrets_works_with_etcd_and_storage_over_tls(
    tmp_path: Path,
) -> None:
    authority = trustme.CA()
    files = issue(authority, tmp_path, "member")
    shown = issue(authority, tmp_path / "broker", "broker-1")
    assert shown.ca and shown.certificate and shown.key
    etcd = etcd_servers(tmp_path / "etcd", tls=files, client_tls=shown)
    async with serving(tls=ServerTls(files, ask_clients=True)) as storage:
        try:
            await etcd.start()
            secrets = {
                f"SULINA_BROKER_{whom}_{part}": path.read_text()
                for whom in ("ETCD", "STORAGE")
                for part, path in (
                    ("CA", shown.ca),
                    ("CERT", shown.certificate),
                    ("KEY", shown.key),
                )
            }
            [member] = etcd.settings.endpoints
            told = {
                **secrets,
                "SULINA_BROKER_ID": "broker-1",
                "SULINA_BROKER_HOST": "127.0.0.1",
                "SULINA_BROKER_PORT": "0",
                "SULINA_BROKER_ETCD": f"https://{member}",
                "SULINA_BROKER_STORAGE_NODE": f"storage-1=127.0.0.1:{storage.port}",
                "SULINA_BROKER_WRITE_QUORUM": "1",
                "SULINA_BROKER_ACK_QUORUM": "1",
                "TMPDIR": str(tmp_path),
            }
            assert await _publish_and_receive(told) == b"hello"
        finally:
            etcd.kill()


async def _publish_and_receive(told: Mapping[str, str]) -> bytes:
    """Through a broker's container with these settings; it stops cleanly, with exit code 0."""
    broker = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "broker_containers.container"),
        env={**os.environ, **told},
        stdout=asyncio.subprocess.PIPE,
    )
    assert broker.stdout is not None
    try:
        async with asyncio.timeout(_PATIENCE):
            ready = json.loads(await broker.stdout.readline())
            async with sulina.connect(ready["url"]) as client:
                async with client.producer("/default/tls") as producer:
                    await (await producer.send(b"hello"))
                async with client.consumer(
                    "/default/tls", "s", start=sulina.Start.earliest()
                ) as consumer:
                    message = await anext(aiter(consumer))
                    await consumer.ack(message)
                    payload = message.payload
            broker.terminate()
            assert await broker.wait() == 0
    finally:
        if broker.returncode is None:
            broker.kill()
            await broker.wait()
    return bytes(payload)
